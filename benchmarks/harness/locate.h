// SPDX-License-Identifier: Apache-2.0
// Where suites, strategies and reference tables lie: by path, or by name under the working folder, the source tree or
// the installed share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quadrille {

inline constexpr std::string_view kSuites = "benchmarks/suites", kStrategies = "parallelism/strategies";

// "gpt_tiny" or "my/suite.json" -> a path. Throws Error: nothing there, with the nearest name and where was looked.
std::string locate_document(std::string_view what, std::string_view folder, const std::string& name_or_path);
std::string locate_file(const std::string& relative);              // "results/floors.json"; throws Error
std::string locate_folder(const std::string& relative);            // "results/published"; throws Error
std::vector<std::string> document_names(std::string_view folder);  // without ".json", sorted, each once

}  // namespace quadrille
