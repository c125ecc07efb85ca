// SPDX-License-Identifier: Apache-2.0
// `quadrille package`: what was written, then what is missing.
#include <fmt/core.h>

#include "benchmarks/commands.h"

namespace quadrille {

int package_command(const SubmissionOptions& options) {
  const Submission result = write_submission(options);
  for (const std::string& path : result.written) fmt::print("{}/{}\n", options.out, path);
  for (const std::string& line : result.missing) fmt::print("missing: {}\n", line);
  fmt::print("{} files, {} things missing. Not verified by MLCommons.\n", result.written.size(), result.missing.size());
  return result.missing.empty() ? exit_code::kGood : exit_code::kNotValid;
}

}  // namespace quadrille
