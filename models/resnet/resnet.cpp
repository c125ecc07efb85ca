// SPDX-License-Identifier: Apache-2.0
// The channels of the trunk rest where "embed" does, those inside of a block where "mlp" does, classes where "vocab"
// does, rows of an image where "height" does. Inside of a bottleneck "mlp" meets itself: its 3x3 sums over it and makes
// it too, so its debt is scattered over what it makes, the one redistribution of an odd chain.
#include "models/resnet/resnet.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "models/nn/layers.h"
#include "models/nn/layers_images.h"

namespace quadrille {

namespace {

constexpr double kHeadDeviation = 0.01;  // Goyal et al. 2017

ConvNormOptions options_of(const ResnetConfig& c, std::int64_t kernel, std::int64_t stride, bool relu) {
  return {{kernel, stride, kernel / 2}, {c.norm_epsilon, c.norm_momentum, c.norm_groups, relu}, 1};
}

class Stem : public Block {
 public:
  Stem(Parameters& p, const ResnetConfig& c)
      : Block("stem"),
        pool_(c.large_stem),
        conv_(p, "stem", "stem", {Axis::none, c.colours}, {Axis::embed, c.base},
              options_of(c, c.large_stem ? 7 : 3, c.large_stem ? 2 : 1, true)) {}
  Handed forward(Tape& tape, Handed) override {
    tape.scope("image");
    const Var x = conv_(tape, tape.image("image"));
    tape.scope("pool");
    return {pool_ ? tape.max_pool(x, {3, 2, 1}) : x};
  }

 private:
  bool pool_;
  ConvNorm conv_;
};

// Convolutions in a row, added to the trunk, and ReLU.
class Residual : public Block {
 public:
  Residual(Parameters& p, const ResnetConfig& c, const std::string& name, std::size_t stage, std::int64_t in,
           std::int64_t stride)
      : Block(name), name_(name) {
    const Dim trunk{Axis::embed, in}, inner{Axis::mlp, c.inner(stage)}, out{Axis::embed, c.trunk(stage)};
    const auto add = [&](Dim from, Dim made, ConvNormOptions options) {
      chain_.emplace_back(p, name, fmt::format("{}.conv{}", name, chain_.size() + 1), from, made, options);
    };
    ConvNormOptions last = options_of(c, c.bottleneck ? 1 : 3, 1, false);
    if (c.zero_last_gain) last.gain = 0;
    add(trunk, inner, options_of(c, c.bottleneck ? 1 : 3, c.bottleneck ? 1 : stride, true));
    if (c.bottleneck) add(inner, inner, options_of(c, 3, stride, true));
    add(inner, out, last);
    if (stride > 1 || in != out.extent)
      shortcut_.emplace(p, name, name + ".shortcut", trunk, out, options_of(c, 1, stride, false));
  }
  Handed forward(Tape& tape, Handed in) override {
    Var x = in.hidden, y = x;
    for (const ConvNorm& conv : chain_) y = conv(tape, y);
    if (shortcut_) x = (*shortcut_)(tape, x);
    tape.scope(name_);
    return {tape.add_relu(x, y)};
  }
  bool is_layer() const override { return true; }

 private:
  std::string name_;
  std::vector<ConvNorm> chain_;
  std::optional<ConvNorm> shortcut_;
};

class Classes : public Block {
 public:
  Classes(Parameters& p, const ResnetConfig& c, double smoothing)
      : Block("head"),
        smoothing_(smoothing),
        classes_(p, "head", "head", {{Axis::embed, c.trunk(c.blocks.size() - 1)}}, {{Axis::vocab, c.classes}}, true,
                 kHeadDeviation) {}
  Handed forward(Tape& tape, Handed in) override {
    tape.scope("mean");
    tape.cross_entropy(classes_(tape, tape.mean_pixels(in.hidden)), "labels", smoothing_);
    return {};
  }

 private:
  double smoothing_;
  Linear classes_;
};

class ResnetDescription : public ModelDescription {
 public:
  ResnetDescription(ResnetConfig config, Json resolved) : c_(std::move(config)), resolved_(std::move(resolved)) {}
  Fields fields() const override {
    return {{"image", {c_.height, c_.width, c_.colours}, DType::f32}, {"labels", {1}, DType::i32}};
  }
  RowWork row_work() const override { return {1, "image"}; }
  std::int64_t vocabulary() const override { return c_.classes; }
  ScratchSizes scratch_sizes() const override {
    ScratchSizes sizes;
    for (const ResnetConv& conv : convolutions_of(c_)) {
      if (conv.kernel > 1 || conv.strided) sizes.window = std::max(sizes.window, conv.kernel * conv.kernel * conv.in);
      sizes.channels = std::max(sizes.channels, conv.made);
    }
    return sizes;
  }
  std::vector<Requirement> requirements() const override {
    return {{"model.base", Axis::embed, c_.base}, {"model.base", Axis::mlp, c_.base}};
  }
  double forward_flops(std::int64_t rows, bool) const override {
    double products = static_cast<double>(c_.trunk(c_.blocks.size() - 1)) * static_cast<double>(c_.classes);
    for (const ResnetConv& conv : convolutions_of(c_)) products += conv.products();
    return 2 * products * static_cast<double>(rows);
  }
  // A chain of odd length cannot alternate between two axes.
  std::vector<std::string> notes(const Plan& plan) const override {
    if (!c_.bottleneck || plan.parts(Axis::mlp) == 1) return {};
    return {
        "a bottleneck's 3x3 sums over \"mlp\" and makes it too: its weight is cut along what it sums over, and its "
        "partial sums are scattered over the channels it makes, one reduce-scatter forward and one all-gather "
        "backward for each block; nothing else is laid out anew"};
  }
  std::vector<std::unique_ptr<Block>> build(Parameters& p, double smoothing) const override {
    std::vector<std::unique_ptr<Block>> blocks;
    blocks.push_back(std::make_unique<Stem>(p, c_));
    std::int64_t in = c_.base;
    for (std::size_t stage = 0; stage < c_.blocks.size(); ++stage)
      for (std::int64_t block = 0; block < c_.blocks[stage]; ++block) {
        blocks.push_back(std::make_unique<Residual>(p, c_, fmt::format("stages.{}.{}", stage, block), stage, in,
                                                    stage > 0 && block == 0 ? 2 : 1));
        in = c_.trunk(stage);
      }
    blocks.push_back(std::make_unique<Classes>(p, c_, smoothing));
    return blocks;
  }
  const Json& resolved() const override { return resolved_; }

 private:
  ResnetConfig c_;
  Json resolved_;
};

}  // namespace

std::unique_ptr<ModelDescription> describe_resnet(const Json& config, std::int64_t data_classes) {
  Json resolved;
  ResnetConfig c = read_resnet(config, data_classes, resolved);
  return std::make_unique<ResnetDescription>(std::move(c), std::move(resolved));
}

}  // namespace quadrille
