// SPDX-License-Identifier: Apache-2.0
// The kinds of data a configuration may name.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "datasets/bert.h"
#include "datasets/images.h"
#include "datasets/jpeg_folders.h"
#include "datasets/pairs.h"
#include "datasets/synthetic.h"
#include "datasets/synthetic_images.h"
#include "datasets/text.h"
#include "datasets/token_files.h"

namespace quadrille {

namespace {

struct Source {
  std::string_view name;
  bool text;  // cut into windows of model.tokens ids
  Datasets (*open)(const Json& config, std::int64_t tokens, const std::string& data_root);
};

constexpr auto kSynthetic = [](const Json& config, std::int64_t tokens, const std::string&) {
  return open_synthetic(config, tokens);
};
constexpr auto kImages = [](const Json& config, std::int64_t, const std::string& data_root) {
  return open_images(config, data_root);
};
constexpr auto kJpegFolders = [](const Json& config, std::int64_t, const std::string& data_root) {
  return open_jpeg_folders(config, data_root);
};
constexpr auto kSyntheticImages = [](const Json& config, std::int64_t, const std::string&) {
  return open_synthetic_images(config);
};

constexpr std::array<Source, 12> kSources = {{{"text", true, open_text},
                                              {"synthetic", true, kSynthetic},
                                              {"llmc", true, open_token_files},
                                              {"megatron", true, open_token_files},
                                              {"nanogpt", true, open_token_files},
                                              {"bert_text", true, open_bert_text},
                                              {"bert_tfrecord", true, open_bert_records},
                                              {"pairs", true, open_pairs},
                                              {"idx", false, kImages},
                                              {"cifar10", false, kImages},
                                              {"jpeg_folders", false, kJpegFolders},
                                              {"synthetic_images", false, kSyntheticImages}}};

}  // namespace

Datasets open_datasets(const Json& config, std::int64_t tokens_per_window, const std::string& data_root) {
  const std::string& name = config.at("source").string();
  const auto* source = std::ranges::find(kSources, name, &Source::name);
  if (source == kSources.end()) {
    std::vector<std::string> known;
    std::string list;
    for (const Source& s : kSources) {
      list += fmt::format("{}{}", list.empty() ? "" : &s == &kSources.back() ? " and " : ", ", s.name);
      known.emplace_back(s.name);
    }
    const std::string near = nearest(name, known);
    fail("data.source (from {}) is \"{}\"; known are {}{}", config.at("source").origin(), name, list,
         near.empty() ? "" : fmt::format(". Did you mean {}?", near));
  }
  require(!source->text || tokens_per_window >= 1,
          "data.source \"{}\" is text, cut into windows of model.tokens ids, but this model has no \"tokens\": take "
          "another data set or another model",
          name);
  return source->open(config, tokens_per_window, data_root);
}

}  // namespace quadrille
