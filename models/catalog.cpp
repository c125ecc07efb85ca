// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/error.h"
#include "models/bert/bert.h"
#include "models/gpt/gpt.h"
#include "models/model.h"
#include "models/resnet/resnet.h"
#include "models/translation/translation.h"

namespace quadrille {

namespace {

struct Kind {
  std::string_view name;
  std::unique_ptr<ModelDescription> (*describe)(const Json&, std::int64_t data_vocabulary);
};
constexpr std::array kKinds = {Kind{"gpt", describe_gpt}, Kind{"bert", describe_bert}, Kind{"resnet", describe_resnet},
                               Kind{"translation", describe_translation}};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& k : kKinds) names.emplace_back(k.name);
  return names;
}

std::unique_ptr<ModelDescription> describe_model(const Json& config, std::int64_t data_vocabulary) {
  const Json& kind = config.at("kind");
  for (const auto& k : kKinds)
    if (k.name == kind.string()) return k.describe(config, data_vocabulary);
  const std::string near = nearest(kind.string(), model_names());
  fail("{}: unknown model \"{}\"{}", kind.origin(), kind.string(),
       near.empty() ? "" : fmt::format(" (nearest: \"{}\")", near));
}

}  // namespace quadrille
