// SPDX-License-Identifier: Apache-2.0
// The configuration of a residual network: families, sizes, refusals, and the list of its convolutions.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "models/config.h"
#include "models/resnet/resnet.h"

namespace quadrille {

namespace {

constexpr std::int64_t kLargestExtent = std::int64_t{1} << 24, kMostBlocks = 1000, kMostStages = 8;

struct Depth {
  std::vector<std::int64_t> blocks;
  bool bottleneck = false;
};

// He et al. 2016, table 1.
const std::map<std::int64_t, Depth>& imagenet_depths() {
  static const std::map<std::int64_t, Depth> known = {{18, {{2, 2, 2, 2}, false}},
                                                      {34, {{3, 4, 6, 3}, false}},
                                                      {50, {{3, 4, 6, 3}, true}},
                                                      {101, {{3, 4, 23, 3}, true}},
                                                      {152, {{3, 8, 36, 3}, true}}};
  return known;
}

Depth of_depth(std::int64_t depth, bool cifar, const std::string& where) {
  if (cifar) {
    require(depth >= 8 && depth % 6 == 2 && depth <= 6 * kMostBlocks,
            "{}: model.depth is {}: of family \"cifar\" it must be 6n + 2 from 8 on, such as 20, 32 or 56", where,
            depth);
    const std::int64_t n = (depth - 2) / 6;
    return {{n, n, n}, false};
  }
  const auto known = imagenet_depths().find(depth);
  require(known != imagenet_depths().end(),
          "{}: model.depth is {}: of family \"imagenet\" it must be 18, 34, 50, 101 or 152; other sizes say \"blocks\" "
          "and \"block\" instead",
          where, depth);
  return known->second;
}

std::vector<std::int64_t> read_blocks(const Json& list) {
  require(list.is_array() && list.size() >= 1 && list.size() <= static_cast<std::size_t>(kMostStages),
          "{}: model.blocks is {}, wanted a list of 1 to {} counts", list.origin(), list.text(), kMostStages);
  std::vector<std::int64_t> blocks;
  for (const Json& n : list.items()) {
    blocks.push_back(n.integer());
    require(blocks.back() >= 1 && blocks.back() <= kMostBlocks, "{}: model.blocks has {}, wanted from 1 to {}",
            n.origin(), blocks.back(), kMostBlocks);
  }
  return blocks;
}

}  // namespace

ResnetConfig read_resnet(const Json& config, std::int64_t data_classes, Json& resolved) {
  Reader reader(config, "model");
  reader.string("kind");
  ResnetConfig c;
  const auto size = [&](std::string_view key, std::optional<std::int64_t> fallback = {}) {
    return read_size(reader, key, fallback, kLargestExtent);
  };
  const bool cifar = reader.choice("family", {"imagenet", "cifar"}, "imagenet") == "cifar";
  if (const Json* blocks = reader.value("blocks")) {
    c.blocks = read_blocks(*blocks);
    c.bottleneck = reader.choice("block", {"basic", "bottleneck"}, "basic") == "bottleneck";
    require(!reader.value("depth"), "{}: model.depth and model.blocks say the same: leave one out",
            reader.origin_of("depth"));
  } else {
    const Depth depth = of_depth(reader.integer("depth"), cifar, reader.origin_of("depth"));
    c.blocks = depth.blocks, c.bottleneck = depth.bottleneck;
  }
  c.large_stem = reader.choice("stem", {"large", "small"}, cifar ? "small" : "large") == "large";
  c.base = size("base", cifar ? 16 : 64);
  c.height = size("height");
  c.width = size("width", c.height);
  c.colours = size("colours", 3);
  c.classes = read_labels(reader, "classes", data_classes, kLargestExtent);
  c.norm_epsilon = reader.number("norm_epsilon", 1e-5);
  c.norm_momentum = reader.number("norm_momentum", 0.9);
  c.norm_groups = size("norm_groups", 1);
  c.zero_last_gain = reader.boolean("zero_last_gain", true);
  reader.done();
  SizeFaults faults(reader);
  faults.check_positive("norm_epsilon", c.norm_epsilon);
  faults.check_share("norm_momentum", c.norm_momentum);
  faults.check_labels("classes", c.classes, data_classes, "labels");
  faults.refuse();
  resolved = reader.resolved();
  resolved.set("classes", Json(c.classes));
  return c;
}

double ResnetConv::products() const {
  return static_cast<double>(kernel * kernel * in) * static_cast<double>(made) * static_cast<double>(height * width);
}

std::vector<ResnetConv> convolutions_of(const ResnetConfig& c) {
  std::vector<ResnetConv> convs;
  std::int64_t height = c.height, width = c.width, in = c.base;
  const auto halve = [](std::int64_t& n) { n = (n + 1) / 2; };  // of 1x1, and of 3x3 and 7x7 with their pads
  const auto halve_both = [&] { halve(height), halve(width); };
  if (c.large_stem) halve_both();
  convs.push_back({c.large_stem ? 7 : 3, c.colours, c.base, height, width, c.large_stem});
  if (c.large_stem) halve_both();
  for (std::size_t stage = 0; stage < c.blocks.size(); ++stage)
    for (std::int64_t block = 0; block < c.blocks[stage]; ++block) {
      const std::int64_t inner = c.inner(stage), out = c.trunk(stage), high = height, wide = width;
      const bool strided = stage > 0 && block == 0;
      if (strided) halve_both();
      if (c.bottleneck) {
        convs.push_back({1, in, inner, high, wide});
        convs.push_back({3, inner, inner, height, width, strided});
        convs.push_back({1, inner, out, height, width});
      } else {
        convs.push_back({3, in, inner, height, width, strided});
        convs.push_back({3, inner, out, height, width});
      }
      if (strided || in != out) convs.push_back({1, in, out, height, width, strided});
      in = out;
    }
  return convs;
}

}  // namespace quadrille
