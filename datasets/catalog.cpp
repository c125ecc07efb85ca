// SPDX-License-Identifier: Apache-2.0
// The kinds of data a configuration may name.
#include "core/error.h"
#include "datasets/synthetic.h"
#include "datasets/text.h"
#include "datasets/token_files.h"

namespace quadrille {

Datasets open_datasets(const Json& config, std::int64_t tokens_per_window, const std::string& data_root) {
  const std::string& source = config.at("source").string();
  if (source == "text") return open_text(config, tokens_per_window, data_root);
  if (source == "synthetic") return open_synthetic(config, tokens_per_window);
  if (source == "llmc" || source == "megatron" || source == "nanogpt")
    return open_token_files(config, tokens_per_window, data_root);
  const std::string near = nearest(source, {"text", "synthetic", "llmc", "megatron", "nanogpt"});
  fail("data.source (from {}) is \"{}\"; known are text, synthetic, llmc, megatron and nanogpt{}",
       config.at("source").origin(), source, near.empty() ? "" : fmt::format(". Did you mean {}?", near));
}

}  // namespace quadrille
