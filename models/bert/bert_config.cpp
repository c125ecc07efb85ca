// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "models/bert/bert.h"
#include "models/config.h"

namespace quadrille {

namespace {

void refuse_contradictions(const BertConfig& c, const Reader& reader, std::int64_t data_vocabulary) {
  SizeFaults faults(reader);
  faults.check_heads(c.embed, c.heads);
  faults.check(c.masked <= c.tokens, "masked",
               fmt::format("model.masked {} is more than model.tokens {}", c.masked, c.tokens));
  faults.check_share("dropout", c.dropout);
  faults.check_positive("norm_epsilon", c.norm_epsilon);
  faults.check_labels("vocabulary", c.vocabulary, data_vocabulary, "ids");
  faults.refuse();
}

}  // namespace

BertConfig read_bert(const Json& config, std::int64_t data_vocabulary, Json& resolved) {
  Reader reader(config, "model");
  BertConfig c;
  reader.string("kind");
  c.layers = read_size(reader, "layers", {}, kMostLayers);
  c.embed = read_size(reader, "embed");
  c.heads = read_size(reader, "heads");
  c.mlp = read_size(reader, "mlp", std::min(4 * c.embed, kLargestSize));
  c.tokens = read_size(reader, "tokens");
  c.masked = read_size(reader, "masked");
  c.vocabulary = read_labels(reader, "vocabulary", data_vocabulary);
  c.segments = read_size(reader, "segments", 2);
  c.dropout = reader.number("dropout", 0);
  c.norm_epsilon = reader.number("norm_epsilon", 1e-12);
  reader.done();
  refuse_contradictions(c, reader, data_vocabulary);
  resolved = reader.resolved();
  resolved.set("vocabulary", Json(c.vocabulary));
  return c;
}

}  // namespace quadrille
