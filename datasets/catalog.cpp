// SPDX-License-Identifier: Apache-2.0
// The kinds of data a configuration may name.
#include "core/error.h"
#include "datasets/images.h"
#include "datasets/synthetic.h"
#include "datasets/text.h"
#include "datasets/token_files.h"

namespace quadrille {

Datasets open_datasets(const Json& config, std::int64_t tokens_per_window, const std::string& data_root) {
  const std::string& source = config.at("source").string();
  const bool text =
      source == "text" || source == "synthetic" || source == "llmc" || source == "megatron" || source == "nanogpt";
  require(!text || tokens_per_window >= 1,
          "data.source \"{}\" is text, cut into windows of model.tokens ids, but this model has no \"tokens\": take "
          "another data set or another model",
          source);
  if (source == "text") return open_text(config, tokens_per_window, data_root);
  if (source == "synthetic") return open_synthetic(config, tokens_per_window);
  if (source == "llmc" || source == "megatron" || source == "nanogpt")
    return open_token_files(config, tokens_per_window, data_root);
  if (source == "idx" || source == "cifar10") return open_images(config, data_root);
  const std::string near = nearest(source, {"text", "synthetic", "llmc", "megatron", "nanogpt", "idx", "cifar10"});
  fail("data.source (from {}) is \"{}\"; known are text, synthetic, llmc, megatron, nanogpt, idx and cifar10{}",
       config.at("source").origin(), source, near.empty() ? "" : fmt::format(". Did you mean {}?", near));
}

}  // namespace quadrille
