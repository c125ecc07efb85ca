// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/faults.h"
#include "models/config.h"
#include "models/nn/layers.h"
#include "models/word_head.h"

namespace quadrille {

namespace {

constexpr double kInitialDeviation = 0.02;  // Radford et al. 2019; residual projections divided by sqrt(2 layers)
constexpr const char* kTable = "table";

NormKind norm_kind(const GptConfig& c) { return c.rms ? NormKind::rms : NormKind::layer; }

// Word and position rows. Learned positions are chosen by address, so a rank with a part of the tokens reads its own
// rows.
class Embed : public Block {
 public:
  Embed(Parameters& parameters, const GptConfig& c, const std::string& table_bucket) : Block("embed"), config_(c) {
    table_ = &parameters.make(kTable, table_bucket, {{Axis::vocab, c.vocabulary}, {Axis::embed, c.embed}}, 0,
                              kInitialDeviation, true);
    if (!c.rotary)
      positions_ = &parameters.make("positions", "embed", {{Axis::none, c.tokens}, {Axis::embed, c.embed}}, 0,
                                    kInitialDeviation);
  }
  Handed forward(Tape& tape, Handed) override {
    tape.scope("embedding");
    Var x = tape.settle(tape.embedding(tape.use(*table_), "ids", {Axis::embed, config_.embed}));
    if (positions_) x = tape.add_positions(x, tape.use(*positions_));
    return {tape.dropout(x, config_.dropout, "embedding")};
  }
  Parameter& table() { return *table_; }

 private:
  GptConfig config_;
  Parameter* table_;
  Parameter* positions_ = nullptr;
};

// One decoder layer: attention and MLP, each behind a norm, each added back to the stream. x [batch, sequence, embed].
class DecoderLayer : public Block {
 public:
  DecoderLayer(Parameters& p, const GptConfig& c, std::int64_t index)
      : Block(name_of_layer(index)),
        config_(c),
        name_(name_of_layer(index)),
        embed_{Axis::embed, c.embed},
        mlp_{Axis::mlp, c.mlp},
        heads_{c.kv_heads, p.plan().head_groups(c.heads, c.kv_heads),
               c.heads / p.plan().head_groups(c.heads, c.kv_heads), c.head()},
        norm1_(p, name_, name_ + ".norm1", embed_, norm_kind(c), c.norm_epsilon),
        qkv_(Linear::of_heads(p, name_, name_ + ".qkv", {embed_}, heads_, c.bias, kInitialDeviation)),
        proj_(p, name_, name_ + ".proj", {{Axis::heads, heads_.groups}, {Axis::none, heads_.queries * c.head()}},
              {embed_}, c.bias, residual(c)),
        norm2_(p, name_, name_ + ".norm2", embed_, norm_kind(c), c.norm_epsilon),
        up_(p, name_, name_ + ".up", {embed_}, {mlp_}, c.bias, kInitialDeviation),
        down_(p, name_, name_ + ".down", {mlp_}, {embed_}, c.bias, residual(c)) {
    if (c.gated)
      gate_ = std::make_unique<Linear>(p, name_, name_ + ".gate", Dims{embed_}, Dims{mlp_}, c.bias, kInitialDeviation);
  }
  Handed forward(Tape& tape, Handed in) override {
    const Var x =
        tape.add(in.hidden, tape.dropout(attend(tape, norm1_(tape, in.hidden)), config_.dropout, name_ + ".proj"));
    return {tape.add(x, tape.dropout(down_(tape, widen(tape, norm2_(tape, x))), config_.dropout, name_ + ".down"))};
  }

  bool is_layer() const override { return true; }

 private:
  static std::string name_of_layer(std::int64_t index) { return "layers." + std::to_string(index); }
  static double residual(const GptConfig& c) {
    return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(c.layers));
  }
  Var attend(Tape& tape, Var x) {
    const std::string dropout_name = name_ + ".attention";
    const Tape::Heads heads{heads_.queries, config_.head(), true, config_.dropout, dropout_name};
    Var packed = qkv_(tape, x);
    if (config_.rotary) packed = tape.rotary(packed, heads, config_.rotary_base);
    return proj_(tape, tape.attention(packed, heads));
  }
  Var widen(Tape& tape, Var x) {
    if (!gate_) return tape.gelu(up_(tape, x));
    const Var gate = (*gate_)(tape, x);
    return tape.gated_silu(gate, up_(tape, x));
  }

  GptConfig config_;
  std::string name_;
  Dim embed_, mlp_;
  HeadSpread heads_;
  NormLayer norm1_;
  Linear qkv_, proj_;
  NormLayer norm2_;
  Linear up_, down_;
  std::unique_ptr<Linear> gate_;
};

WordHeadSizes words_of(const GptConfig& c) {
  return {c.vocabulary, c.embed, norm_kind(c), c.norm_epsilon, kInitialDeviation};
}

class GptDescription : public ModelDescription {
 public:
  GptDescription(GptConfig config, Json resolved) : c_(config), resolved_(std::move(resolved)) {}
  Fields fields() const override { return text_fields(c_.tokens); }
  RowWork row_work() const override { return {c_.tokens, "token"}; }
  std::int64_t tokens() const override { return c_.tokens; }
  std::int64_t vocabulary() const override { return c_.vocabulary; }
  ScratchSizes scratch_sizes() const override { return {.head = c_.head()}; }
  std::vector<Requirement> requirements() const override {
    return {{"model.embed", Axis::embed, c_.embed},
            {"model.heads", Axis::heads, c_.heads},
            {"model.kv_heads", Axis::heads, c_.kv_heads, true},
            {"model.mlp", Axis::mlp, c_.mlp}};
  }
  double forward_flops(std::int64_t rows, bool causal) const override {
    const auto b = static_cast<double>(rows), s = static_cast<double>(c_.tokens), h = static_cast<double>(c_.embed);
    const auto kv = static_cast<double>(c_.kv_heads * c_.head()), f = static_cast<double>(c_.mlp),
               v = static_cast<double>(c_.vocabulary);
    const double projections = 2 * b * s * h * (2 * h + 2 * kv);
    const double attention = 4 * b * s * s * h * (causal ? 0.5 : 1.0);
    const double mlp = 2 * b * s * h * f * (c_.gated ? 3 : 2);
    return static_cast<double>(c_.layers) * (projections + attention + mlp) + 2 * b * s * h * v;
  }
  std::vector<std::unique_ptr<Block>> build(Parameters& p, double smoothing) const override {
    std::vector<std::unique_ptr<Block>> blocks;
    auto embed = std::make_unique<Embed>(p, c_, c_.tied_head ? "tied" : "embed");
    Parameter* tied = c_.tied_head ? &embed->table() : nullptr;
    blocks.push_back(std::move(embed));
    for (std::int64_t i = 0; i < c_.layers; ++i) blocks.push_back(std::make_unique<DecoderLayer>(p, c_, i));
    blocks.push_back(std::make_unique<WordHead>(p, "head.norm", words_of(c_), tied, smoothing));
    return blocks;
  }
  const Json& resolved() const override { return resolved_; }

 private:
  GptConfig c_;
  Json resolved_;
};

GptConfig read_gpt(Reader& reader, std::int64_t data_vocabulary) {
  GptConfig c;
  reader.string("kind");
  c.layers = read_size(reader, "layers", {}, kMostLayers);
  c.embed = read_size(reader, "embed");
  c.heads = read_size(reader, "heads");
  c.kv_heads = read_size(reader, "kv_heads", c.heads);
  c.mlp = read_size(reader, "mlp", std::min(4 * c.embed, kLargestSize));
  c.tokens = read_size(reader, "tokens");
  c.vocabulary = read_labels(reader, "vocabulary", data_vocabulary);
  c.tied_head = reader.boolean("tied_head", true);
  c.rotary = reader.choice("positions", {"learned", "rotary"}, "learned") == "rotary";
  c.rotary_base = reader.number("rotary_base", 10000);
  c.rms = reader.choice("norm", {"layer", "rms"}, "layer") == "rms";
  c.norm_epsilon = reader.number("norm_epsilon", 1e-5);
  c.gated = reader.choice("activation", {"gelu", "gated_silu"}, "gelu") == "gated_silu";
  c.bias = reader.boolean("bias", true);
  c.dropout = reader.number("dropout", 0);
  reader.done();
  return c;
}

void refuse_contradictions(const GptConfig& c, const Reader& reader, std::int64_t data_vocabulary) {
  SizeFaults faults(reader);
  faults.check_heads(c.embed, c.heads);
  faults.check(c.heads % c.kv_heads == 0, "kv_heads",
               fmt::format("model.kv_heads {} does not divide model.heads {}; legal kv_heads: {}", c.kv_heads, c.heads,
                           divisors_text(c.heads)));
  faults.check(!c.rotary || c.embed % c.heads != 0 || c.head() % 2 == 0, "positions",
               fmt::format("rotary positions need an even head width, found {} = embed {} / heads {}",
                           c.embed / c.heads, c.embed, c.heads));
  faults.check_share("dropout", c.dropout);
  faults.check_positive("norm_epsilon", c.norm_epsilon);
  faults.check(c.rotary_base > 1, "rotary_base",
               fmt::format("model.rotary_base is {}: it must be above 1", c.rotary_base));
  faults.check_labels("vocabulary", c.vocabulary, data_vocabulary, "ids");
  faults.refuse();
}

}  // namespace

std::unique_ptr<ModelDescription> describe_gpt(const Json& config, std::int64_t data_vocabulary) {
  Reader reader(config, "model");
  const GptConfig c = read_gpt(reader, data_vocabulary);
  refuse_contradictions(c, reader, data_vocabulary);
  Json resolved = reader.resolved();
  resolved.set("vocabulary", Json(c.vocabulary));
  return std::make_unique<GptDescription>(c, std::move(resolved));
}

}  // namespace quadrille
