// SPDX-License-Identifier: Apache-2.0
#include "models/translation/translation.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/nn/layers.h"
#include "models/word_head.h"

namespace quadrille {

namespace {

NormKind norm_kind(const TranslationConfig& c) { return c.rms ? NormKind::rms : NormKind::layer; }
double root_of(std::int64_t n) { return std::sqrt(static_cast<double>(n)); }
// Glorot and Bengio 2010: variance 2 / (in + out). Of each projection by itself, though queries, keys and values lie
// in one matrix.
double glorot(std::int64_t in, std::int64_t out) { return std::sqrt(2.0 / static_cast<double>(in + out)); }

// Words of one language times sqrt(embed), with their positions. The table may be another block's too.
class Embedding {
 public:
  Embedding(Parameters& p, const TranslationConfig& c, const std::string& name, std::string field, std::int64_t tokens,
            Parameter* table)
      : config_(c),
        name_(name),
        field_(std::move(field)),
        table_(table ? table
                     : &p.make(name + ".table", c.tied ? "tied" : name,
                               {{Axis::vocab, c.vocabulary}, {Axis::embed, c.embed}}, 0, 1 / root_of(c.embed), true)) {
    if (c.learned)
      positions_ = &p.make(name + ".positions", name, {{Axis::none, tokens}, {Axis::embed, c.embed}}, 0, 1);
  }
  Var operator()(Tape& tape) const {
    tape.scope(name_);
    const Var words = tape.settle(tape.embedding(tape.use(*table_), field_, {Axis::embed, config_.embed}));
    const Var x = positions_ ? tape.add_positions(tape.scale(words, root_of(config_.embed)), tape.use(*positions_))
                             : tape.add_sinusoids(words, root_of(config_.embed));
    return tape.dropout(x, config_.dropout, name_);
  }
  Parameter& table() const { return *table_; }

 private:
  TranslationConfig config_;
  std::string name_, field_;
  Parameter* table_;
  Parameter* positions_ = nullptr;
};

// x + f(norm(x)): what every sublayer is.
class Sublayer {
 public:
  Sublayer(Parameters& p, const TranslationConfig& c, const std::string& layer, std::string name)
      : name_(std::move(name)),
        dropout_(c.dropout),
        norm_(p, layer, name_ + ".norm", {Axis::embed, c.embed}, norm_kind(c), c.norm_epsilon) {}
  template <class F>
  Var operator()(Tape& tape, Var x, F&& f) const {
    return tape.add(x, tape.dropout(f(norm_(tape, x)), dropout_, name_));
  }

 private:
  std::string name_;
  double dropout_;
  NormLayer norm_;
};

class SelfAttention {
 public:
  SelfAttention(Parameters& p, const TranslationConfig& c, const std::string& layer, bool causal)
      : name_(layer + ".attention"),
        causal_(causal),
        config_(c),
        around_(p, c, layer, name_),
        qkv_(p, layer, name_ + ".qkv", {{Axis::embed, c.embed}}, {{Axis::heads, c.heads}, {Axis::none, 3 * c.head()}},
             c.attention_bias, glorot(c.embed, c.embed)),
        proj_(p, layer, name_ + ".proj", {{Axis::heads, c.heads}, {Axis::none, c.head()}}, {{Axis::embed, c.embed}},
              c.attention_bias, glorot(c.embed, c.embed)) {}
  Var operator()(Tape& tape, Var x, Tensor lengths) const {
    return around_(tape, x, [&](Var normed) {
      const Var packed = qkv_(tape, normed);
      tape.scope(name_);
      return proj_(tape, tape.attention(packed, {.queries = 1,
                                                 .head = config_.head(),
                                                 .causal = causal_,
                                                 .dropout = config_.attention_dropout,
                                                 .name = name_,
                                                 .lengths = std::move(lengths)}));
    });
  }

 private:
  std::string name_;
  bool causal_;
  TranslationConfig config_;
  Sublayer around_;
  Linear qkv_, proj_;
};

// Queries of the target over keys and values of what the encoder made, which has been normalised already.
class CrossAttention {
 public:
  CrossAttention(Parameters& p, const TranslationConfig& c, const std::string& layer)
      : name_(layer + ".cross"),
        config_(c),
        around_(p, c, layer, name_),
        queries_(p, layer, name_ + ".q", {{Axis::embed, c.embed}}, {{Axis::heads, c.heads}, {Axis::none, c.head()}},
                 c.attention_bias, glorot(c.embed, c.embed)),
        keys_(p, layer, name_ + ".kv", {{Axis::embed, c.embed}}, {{Axis::heads, c.heads}, {Axis::none, 2 * c.head()}},
              c.attention_bias, glorot(c.embed, c.embed)),
        proj_(p, layer, name_ + ".proj", {{Axis::heads, c.heads}, {Axis::none, c.head()}}, {{Axis::embed, c.embed}},
              c.attention_bias, glorot(c.embed, c.embed)) {}
  Var operator()(Tape& tape, Var x, Var memory, Tensor lengths) const {
    return around_(tape, x, [&](Var normed) {
      const Var queries = queries_(tape, normed), keys = keys_(tape, memory);
      tape.scope(name_);
      return proj_(tape, tape.cross_attention(queries, keys,
                                              {.queries = 1,
                                               .head = config_.head(),
                                               .causal = false,
                                               .dropout = config_.attention_dropout,
                                               .name = name_,
                                               .lengths = std::move(lengths)}));
    });
  }

 private:
  std::string name_;
  TranslationConfig config_;
  Sublayer around_;
  Linear queries_, keys_, proj_;
};

class Mlp {
 public:
  Mlp(Parameters& p, const TranslationConfig& c, const std::string& layer)
      : name_(layer + ".mlp"),
        config_(c),
        around_(p, c, layer, name_),
        up_(p, layer, name_ + ".up", {{Axis::embed, c.embed}}, {{Axis::mlp, c.mlp}}, c.bias, glorot(c.embed, c.mlp)),
        down_(p, layer, name_ + ".down", {{Axis::mlp, c.mlp}}, {{Axis::embed, c.embed}}, c.bias,
              glorot(c.mlp, c.embed)) {
    if (c.gated())
      gate_.emplace(p, layer, name_ + ".gate", Dims{{Axis::embed, c.embed}}, Dims{{Axis::mlp, c.mlp}}, c.bias,
                    glorot(c.embed, c.mlp));
  }
  Var operator()(Tape& tape, Var x) const {
    return around_(tape, x, [&](Var normed) {
      return down_(tape, tape.dropout(widen(tape, normed), config_.activation_dropout, name_ + ".up"));
    });
  }

 private:
  Var widen(Tape& tape, Var x) const {
    using Activation = TranslationConfig::Activation;
    switch (config_.activation) {
      case Activation::relu:
        return tape.relu(up_(tape, x));
      case Activation::gelu:
        return tape.gelu(up_(tape, x));
      case Activation::gated_silu:
        break;
    }
    const Var gate = (*gate_)(tape, x);
    return tape.gated_silu(gate, up_(tape, x));
  }
  std::string name_;
  TranslationConfig config_;
  Sublayer around_;
  Linear up_, down_;
  std::optional<Linear> gate_;
};

class Begin : public Block {
 public:
  Begin(Parameters& p, const TranslationConfig& c)
      : Block("encoder.embed"), embed_(p, c, "encoder.embed", "source", c.source_tokens, nullptr) {}
  Handed forward(Tape& tape, Handed) override { return {embed_(tape)}; }
  Parameter& table() const { return embed_.table(); }

 private:
  Embedding embed_;
};

class EncoderLayer : public Block {
 public:
  EncoderLayer(Parameters& p, const TranslationConfig& c, std::int64_t index)
      : Block("encoder." + std::to_string(index)), attention_(p, c, bucket(), false), mlp_(p, c, bucket()) {}
  Handed forward(Tape& tape, Handed in) override {
    tape.scope(bucket());
    return {mlp_(tape, attention_(tape, in.hidden, tape.row_lengths("source")))};
  }
  bool is_layer() const override { return true; }

 private:
  SelfAttention attention_;
  Mlp mlp_;
};

// Between the stacks: what the encoder made becomes memory, and the target's words begin.
class Turn : public Block {
 public:
  Turn(Parameters& p, const TranslationConfig& c, Parameter* table)
      : Block("decoder.embed"),
        norm_(p, bucket(), "encoder.norm", {Axis::embed, c.embed}, norm_kind(c), c.norm_epsilon),
        embed_(p, c, bucket(), "ids", c.tokens, table) {}
  Handed forward(Tape& tape, Handed in) override {
    const Var memory = norm_(tape, in.hidden);
    return {embed_(tape), memory};
  }

 private:
  NormLayer norm_;
  Embedding embed_;
};

class DecoderLayer : public Block {
 public:
  DecoderLayer(Parameters& p, const TranslationConfig& c, std::int64_t index)
      : Block("decoder." + std::to_string(index)),
        last_(index + 1 == c.decoder_layers),
        attention_(p, c, bucket(), true),
        cross_(p, c, bucket()),
        mlp_(p, c, bucket()) {}
  Handed forward(Tape& tape, Handed in) override {
    tape.scope(bucket());
    const Tensor lengths = tape.row_lengths("source");
    const Var x = mlp_(tape, cross_(tape, attention_(tape, in.hidden, {}), in.memory, lengths));
    return {x, last_ ? Var{} : in.memory};
  }
  bool is_layer() const override { return true; }

 private:
  bool last_;
  SelfAttention attention_;
  CrossAttention cross_;
  Mlp mlp_;
};

WordHeadSizes words_of(const TranslationConfig& c) {
  return {c.vocabulary, c.embed, norm_kind(c), c.norm_epsilon, 1 / root_of(c.embed)};
}

class TranslationDescription : public ModelDescription {
 public:
  TranslationDescription(TranslationConfig config, Json resolved) : c_(config), resolved_(std::move(resolved)) {}
  Fields fields() const override {
    return {{"source", {c_.source_tokens}}, {"ids", {c_.tokens}}, {"labels", {c_.tokens}}};
  }
  RowWork row_work() const override { return {1, "pair"}; }
  std::int64_t tokens() const override { return c_.tokens; }
  bool layers_read_fields() const override { return true; }  // how long each source is
  std::vector<Requirement> sequences() const override {
    return {{"model.source_tokens", Axis::sequence, c_.source_tokens}, {"model.tokens", Axis::sequence, c_.tokens}};
  }
  std::int64_t vocabulary() const override { return c_.vocabulary; }
  ScratchSizes scratch_sizes() const override { return {.head = c_.head()}; }
  std::vector<Requirement> requirements() const override {
    return {{"model.embed", Axis::embed, c_.embed},
            {"model.heads", Axis::heads, c_.heads},
            {"model.mlp", Axis::mlp, c_.mlp}};
  }
  double forward_flops(std::int64_t rows, bool causal) const override {
    const auto b = static_cast<double>(rows), s = static_cast<double>(c_.source_tokens),
               t = static_cast<double>(c_.tokens), h = static_cast<double>(c_.embed), f = static_cast<double>(c_.mlp),
               v = static_cast<double>(c_.vocabulary);
    const double token = 8 * h * h + (c_.gated() ? 6 : 4) * h * f;  // projections of self-attention, and an MLP
    const double encoder = b * s * token + 4 * b * s * s * h;
    const double decoder = b * t * token + 4 * b * t * t * h * (causal ? 0.5 : 1.0);
    const double cross = 4 * b * t * h * h + 4 * b * s * h * h + 4 * b * s * t * h;
    return static_cast<double>(c_.encoder_layers) * encoder +
           static_cast<double>(c_.decoder_layers) * (decoder + cross) + 2 * b * t * h * v;
  }
  std::vector<std::unique_ptr<Block>> build(Parameters& p, double smoothing) const override {
    std::vector<std::unique_ptr<Block>> blocks;
    auto begin = std::make_unique<Begin>(p, c_);
    Parameter* tied = c_.tied ? &begin->table() : nullptr;
    blocks.push_back(std::move(begin));
    for (std::int64_t i = 0; i < c_.encoder_layers; ++i) blocks.push_back(std::make_unique<EncoderLayer>(p, c_, i));
    blocks.push_back(std::make_unique<Turn>(p, c_, tied));
    for (std::int64_t i = 0; i < c_.decoder_layers; ++i) blocks.push_back(std::make_unique<DecoderLayer>(p, c_, i));
    blocks.push_back(std::make_unique<WordHead>(p, "decoder.norm", words_of(c_), tied, smoothing));
    return blocks;
  }
  const Json& resolved() const override { return resolved_; }

 private:
  TranslationConfig c_;
  Json resolved_;
};

}  // namespace

std::unique_ptr<ModelDescription> describe_translation(const Json& config, std::int64_t data_vocabulary) {
  Json resolved;
  const TranslationConfig c = read_translation(config, data_vocabulary, resolved);
  return std::make_unique<TranslationDescription>(c, std::move(resolved));
}

}  // namespace quadrille
