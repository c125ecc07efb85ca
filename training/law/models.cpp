// SPDX-License-Identifier: Apache-2.0
// See models.h.
#include "training/law/models.h"

#include <algorithm>

#include "core/error.h"

namespace quadrille {

namespace {

Json gpt(const std::string& form, const LawSizes& size) {
  const bool llama = form == "llama";
  Json model = Json::object();
  model.set("kind", "gpt");
  model.set("layers", kLawLayers);
  model.set("embed", size.embed);
  model.set("heads", llama ? 2 * size.heads : size.heads);
  model.set("kv_heads", size.heads);
  model.set("mlp", size.mlp);
  model.set("tokens", size.tokens);
  model.set("vocabulary", kLawVocabulary);
  model.set("dropout", 0.1);
  model.set("tied_head", form == "tied");
  if (llama) {
    model.set("positions", "rotary");
    model.set("norm", "rms");
    model.set("activation", "gated_silu");
    model.set("bias", false);
  }
  return model;
}

Json bert(const std::string&, const LawSizes& size) {
  Json model = Json::object();
  model.set("kind", "bert");
  model.set("layers", kLawLayers);
  model.set("embed", size.embed);
  model.set("heads", size.heads);
  model.set("mlp", size.mlp);
  model.set("tokens", size.tokens);
  model.set("masked", 3);
  model.set("vocabulary", kLawVocabulary);
  model.set("dropout", 0.1);
  return model;
}

// Heights on the way: 21, and with the stem and its pool 11, 6, then 3 in the second stage.
Json resnet(const std::string& form, const LawSizes& size) {
  const bool bottleneck = form == "bottleneck";
  Json model = Json::object();
  model.set("kind", "resnet");
  model.set("blocks", parse_json("[1, 2]", "check"));  // kLawLayers in all
  model.set("block", form);
  model.set("stem", bottleneck ? "large" : "small");
  model.set("base", size.heads);
  model.set("height", bottleneck ? 21 : 9);
  model.set("width", bottleneck ? 16 : 7);
  model.set("classes", kLawVocabulary);
  model.set("zero_last_gain", bottleneck);
  return model;
}

// The source is longer than the target, and both divide as the tokens do.
Json translation(const std::string& form, const LawSizes& size) {
  Json model = Json::object();
  model.set("kind", "translation");
  model.set("encoder_layers", 1);
  model.set("decoder_layers", kLawLayers - 1);
  model.set("embed", size.embed);
  model.set("heads", size.heads);
  model.set("mlp", size.mlp);
  model.set("source_tokens", form == "tied" ? 2 * size.tokens : size.tokens);
  model.set("tokens", size.tokens);
  model.set("vocabulary", kLawVocabulary);
  model.set("dropout", 0.1);
  model.set("tied", form == "tied");
  if (form == "untied") {
    model.set("positions", "learned");
    model.set("norm", "rms");
    model.set("activation", "gated_silu");
    model.set("bias", false);
  }
  return model;
}

// A ReLU and the largest of a window decide otherwise where rounding differs, and a gradient that went one way goes
// another: single ones differ by as much as they are (0.8 of the largest was measured), losses and norms do not.
constexpr Bounds kWithCorners{2e-3, 0.1, 3};

const std::vector<LawModel>& models() {
  static const std::vector<LawModel> all = {
      {"gpt", {"tied", "untied", "llama"}, {Axis::sequence, Axis::heads}, false, kBoundsBf16, gpt},
      {"bert", {"post-norm"}, {Axis::sequence, Axis::heads}, false, kBoundsBf16, bert},
      {"resnet", {"bottleneck", "basic"}, {Axis::height}, true, kWithCorners, resnet},
      {"translation", {"tied", "untied"}, {Axis::sequence, Axis::heads}, false, kWithCorners, translation}};
  return all;
}

}  // namespace

bool LawModel::has(Axis a) const { return std::find(axes.begin(), axes.end(), a) != axes.end(); }

const LawModel& law_model(std::string_view kind) {
  std::string known;
  for (const LawModel& m : models()) {
    if (m.kind == kind) return m;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", m.kind);
  }
  fail("there is no toy of the model \"{}\" to check layouts with: there are {}", kind, known);
}

}  // namespace quadrille
