// SPDX-License-Identifier: Apache-2.0
// `quadrille bleu`: one line with the score, its parts and its signature.
#include <fmt/core.h>

#include "benchmarks/commands.h"
#include "core/error.h"
#include "datasets/bleu.h"
#include "datasets/manifest.h"
#include "datasets/mapped_file.h"

namespace quadrille {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  const std::int64_t bad = first_ill_formed(text);
  require(bad < 0, "{} is not UTF-8 at byte {}: convert it first", path, bad);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    at = end + 1;
  }
  return lines;
}

}  // namespace

int bleu_command(const BleuOptions& options) {
  const auto hypotheses = lines_of(options.hypotheses), references = lines_of(options.references);
  require(!references.empty(), "{} is empty: nothing to compare with", options.references);
  require(hypotheses.size() == references.size(),
          "{} has {} lines and {} has {}: line i of one belongs to line i of the other. An empty translation is an "
          "empty line",
          options.hypotheses, hypotheses.size(), options.references, references.size());
  fmt::print("{}\n", text_of(bleu(hypotheses, references, options.lower)));
  return exit_code::kGood;
}

}  // namespace quadrille
