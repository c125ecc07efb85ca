// SPDX-License-Identifier: Apache-2.0
// The kinds of data a configuration may name.
#include <algorithm>

#include "core/error.h"
#include "datasets/bert.h"
#include "datasets/images.h"
#include "datasets/pairs.h"
#include "datasets/synthetic.h"
#include "datasets/text.h"
#include "datasets/token_files.h"

namespace quadrille {

Datasets open_datasets(const Json& config, std::int64_t tokens_per_window, const std::string& data_root) {
  const std::string& source = config.at("source").string();
  const std::vector<std::string> known = {"text",      "synthetic",     "llmc",  "megatron", "nanogpt",
                                          "bert_text", "bert_tfrecord", "pairs", "idx",      "cifar10"};
  const bool text = source != "idx" && source != "cifar10" && std::ranges::find(known, source) != known.end();
  require(!text || tokens_per_window >= 1,
          "data.source \"{}\" is text, cut into windows of model.tokens ids, but this model has no \"tokens\": take "
          "another data set or another model",
          source);
  if (source == "text") return open_text(config, tokens_per_window, data_root);
  if (source == "synthetic") return open_synthetic(config, tokens_per_window);
  if (source == "llmc" || source == "megatron" || source == "nanogpt")
    return open_token_files(config, tokens_per_window, data_root);
  if (source == "idx" || source == "cifar10") return open_images(config, data_root);
  if (source == "bert_text") return open_bert_text(config, tokens_per_window, data_root);
  if (source == "bert_tfrecord") return open_bert_records(config, tokens_per_window, data_root);
  if (source == "pairs") return open_pairs(config, tokens_per_window, data_root);
  const std::string near = nearest(source, known);
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : name == known.back() ? " and " : ", ") + name;
  fail("data.source (from {}) is \"{}\"; known are {}{}", config.at("source").origin(), source, list,
       near.empty() ? "" : fmt::format(". Did you mean {}?", near));
}

}  // namespace quadrille
