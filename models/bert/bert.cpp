// SPDX-License-Identifier: Apache-2.0
#include "models/bert/bert.h"

#include <string>
#include <utility>

#include "datasets/bert.h"
#include "models/nn/layers.h"

namespace quadrille {

namespace {

constexpr double kInitialDeviation = 0.02;  // Devlin et al. 2019, of all weights and tables
constexpr std::int64_t kFollowing = 2;      // classes: the second segment follows the first, or is from elsewhere

NormLayer norm_of(Parameters& p, const BertConfig& c, const std::string& bucket, const std::string& name) {
  return NormLayer(p, bucket, name, {Axis::embed, c.embed}, NormKind::layer, c.norm_epsilon);
}

// Word, position and segment rows, their norm.
class Embed : public Block {
 public:
  Embed(Parameters& p, const BertConfig& c)
      : Block("embed"),
        config_(c),
        embed_{Axis::embed, c.embed},
        words_(&p.make("table", "tied", {{Axis::vocab, c.vocabulary}, embed_}, 0, kInitialDeviation, true)),
        positions_(&p.make("positions", "embed", {{Axis::none, c.tokens}, embed_}, 0, kInitialDeviation, true)),
        segments_(&p.make("segments", "embed", {{Axis::none, c.segments}, embed_}, 0, kInitialDeviation, true)),
        norm_(norm_of(p, c, "embed", "embed.norm")) {}
  Handed forward(Tape& tape, Handed) override {
    tape.scope("embedding");
    const Var words = tape.settle(tape.embedding(tape.use(*words_), "ids", embed_));
    const Var placed = tape.add_positions(words, tape.use(*positions_));
    const Var segments = tape.settle(tape.embedding(tape.use(*segments_), "segments", embed_));
    return {tape.dropout(norm_(tape, tape.add(placed, segments)), config_.dropout, "embedding")};
  }
  Parameter& table() { return *words_; }

 private:
  BertConfig config_;
  Dim embed_;
  Parameter *words_, *positions_, *segments_;
  NormLayer norm_;
};

// One encoder layer: attention and MLP, each added to the stream, each sum normalised. x [batch, sequence, embed].
class EncoderLayer : public Block {
 public:
  EncoderLayer(Parameters& p, const BertConfig& c, std::int64_t index)
      : Block(name_of_layer(index)),
        config_(c),
        name_(name_of_layer(index)),
        embed_{Axis::embed, c.embed},
        mlp_{Axis::mlp, c.mlp},
        qkv_(Linear::of_heads(p, name_, name_ + ".qkv", {embed_}, {c.heads, c.heads, 1, c.head()}, true,
                              kInitialDeviation)),
        proj_(p, name_, name_ + ".proj", {{Axis::heads, c.heads}, {Axis::none, c.head()}}, {embed_}, true,
              kInitialDeviation),
        norm1_(norm_of(p, c, name_, name_ + ".norm1")),
        up_(p, name_, name_ + ".up", {embed_}, {mlp_}, true, kInitialDeviation),
        down_(p, name_, name_ + ".down", {mlp_}, {embed_}, true, kInitialDeviation),
        norm2_(norm_of(p, c, name_, name_ + ".norm2")) {}
  Handed forward(Tape& tape, Handed in) override {
    const Var x = norm1_(tape, tape.add(in.hidden, dropped(tape, attend(tape, in.hidden), ".proj")));
    const Var wide = tape.gelu(up_(tape, x));
    return {norm2_(tape, tape.add(x, dropped(tape, down_(tape, wide), ".down")))};
  }
  bool is_layer() const override { return true; }

 private:
  static std::string name_of_layer(std::int64_t index) { return "layers." + std::to_string(index); }
  Var dropped(Tape& tape, Var x, const char* where) { return tape.dropout(x, config_.dropout, name_ + where); }
  // A row's padding is at its end: no query sees it.
  Var attend(Tape& tape, Var x) {
    const std::string dropout_name = name_ + ".attention";
    const Tape::Heads heads{1, config_.head(), false, config_.dropout, dropout_name, tape.row_lengths("ids")};
    return proj_(tape, tape.attention(qkv_(tape, x), heads));
  }

  BertConfig config_;
  std::string name_;
  Dim embed_, mlp_;
  Linear qkv_, proj_;
  NormLayer norm1_;
  Linear up_, down_;
  NormLayer norm2_;
};

// Both losses. Masked words: a dense layer on their rows, then the word table again. The next sentence: a dense layer
// on the first token's row, then two classes.
class Heads : public Block {
 public:
  Heads(Parameters& p, const BertConfig& c, Parameter& table, double smoothing)
      : Block("head"),
        words_{Axis::vocab, c.vocabulary},
        smoothing_(smoothing),
        transform_(p, "head", "head.transform", {{Axis::embed, c.embed}}, {{Axis::embed, c.embed}}, true,
                   kInitialDeviation),
        norm_(norm_of(p, c, "head", "head.norm")),
        table_(&table),
        bias_(&p.make("head.bias", "head", {words_}, 0, 0)),
        pooler_(p, "head", "pooler", {{Axis::embed, c.embed}}, {{Axis::embed, c.embed}}, true, kInitialDeviation),
        next_(p, "head", "next", {{Axis::embed, c.embed}}, {{Axis::none, kFollowing}}, true, kInitialDeviation) {}
  Handed forward(Tape& tape, Handed in) override {
    tape.scope("masked words");
    const Var masked = tape.settle(tape.pick(in.hidden, "places"));
    const Var x = norm_(tape, tape.gelu(transform_(tape, masked)));
    tape.scope("head");
    const Var logits = tape.linear(x, tape.use(*table_), 1, {words_}, Tape::Summed::last);
    tape.cross_entropy(with_bias(tape, logits, tape.use(*bias_)), "labels", smoothing_);
    tape.scope("pooler");
    const Var first = tape.settle(tape.pick_first(in.hidden));
    tape.cross_entropy(next_(tape, tape.tanh(pooler_(tape, first))), "next", 0);
    return {};
  }

 private:
  Dim words_;
  double smoothing_;
  Linear transform_;
  NormLayer norm_;
  Parameter *table_, *bias_;
  Linear pooler_, next_;
};

class BertDescription : public ModelDescription {
 public:
  BertDescription(BertConfig config, Json resolved) : c_(config), resolved_(std::move(resolved)) {}
  Fields fields() const override { return bert_fields(c_.tokens, c_.masked); }
  RowWork row_work() const override { return {1, "sequence"}; }
  std::int64_t tokens() const override { return c_.tokens; }
  std::int64_t vocabulary() const override { return c_.vocabulary; }
  std::vector<std::string> losses() const override { return {"labels", "next"}; }
  bool layers_read_fields() const override { return true; }  // for the lengths of rows
  ScratchSizes scratch_sizes() const override { return {.head = c_.head()}; }
  std::vector<Requirement> requirements() const override {
    return {{"model.embed", Axis::embed, c_.embed},
            {"model.heads", Axis::heads, c_.heads},
            {"model.mlp", Axis::mlp, c_.mlp}};
  }
  // Every query is counted with all keys, padding too.
  double forward_flops(std::int64_t rows, bool) const override {
    const auto of = [](std::int64_t n) { return static_cast<double>(n); };
    const double b = of(rows), s = of(c_.tokens), h = of(c_.embed), f = of(c_.mlp), v = of(c_.vocabulary);
    const double layer = 8 * b * s * h * h + 4 * b * s * h * f + 4 * b * s * s * h;
    return of(c_.layers) * layer + 2 * b * of(c_.masked) * h * (h + v) + 2 * b * h * (h + of(kFollowing));
  }
  std::vector<std::unique_ptr<Block>> build(Parameters& p, double smoothing) const override {
    std::vector<std::unique_ptr<Block>> blocks;
    auto embed = std::make_unique<Embed>(p, c_);
    Parameter& table = embed->table();
    blocks.push_back(std::move(embed));
    for (std::int64_t i = 0; i < c_.layers; ++i) blocks.push_back(std::make_unique<EncoderLayer>(p, c_, i));
    blocks.push_back(std::make_unique<Heads>(p, c_, table, smoothing));
    return blocks;
  }
  const Json& resolved() const override { return resolved_; }

 private:
  BertConfig c_;
  Json resolved_;
};

}  // namespace

std::unique_ptr<ModelDescription> describe_bert(const Json& config, std::int64_t data_vocabulary) {
  Json resolved;
  const BertConfig c = read_bert(config, data_vocabulary, resolved);
  return std::make_unique<BertDescription>(c, std::move(resolved));
}

}  // namespace quadrille
