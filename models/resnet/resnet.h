// SPDX-License-Identifier: Apache-2.0
// Residual networks (He et al. 2016) as v1.5: a bottleneck's stride is in its 3x3. The "model" object:
//   kind "resnet", family ("imagenet" | "cifar"), depth (18, 34, 50, 101, 152; of "cifar" 6n + 2), or instead of depth
//   blocks (a list: how many of each stage) and block ("basic" | "bottleneck"); stem ("large": 7x7 of stride 2 and a
//   3x3 max pool of stride 2 | "small": 3x3), base (channels of the first stage: 64, "cifar" 16), height, width,
//   colours (3), classes ("data" or a count), norm_epsilon (1e-5), norm_momentum (0.9), norm_groups (1: parts of a
//   micro-batch with statistics of their own), zero_last_gain (true: of each block, so that it starts as nothing).
// Where a stage begins, its first block halves height and width (not in the first stage) and doubles the channels; a
// shortcut whose sizes change is a 1x1 convolution.
#pragma once

#include <memory>
#include <vector>

#include "models/model.h"

namespace quadrille {

struct ResnetConfig {
  std::vector<std::int64_t> blocks;
  bool bottleneck = false, large_stem = false, zero_last_gain = true;
  std::int64_t base = 64, height = 0, width = 0, colours = 3, classes = 0, norm_groups = 1;
  double norm_epsilon = 1e-5, norm_momentum = 0.9;
  std::int64_t inner(std::size_t stage) const { return base << stage; }
  std::int64_t trunk(std::size_t stage) const { return inner(stage) * (bottleneck ? 4 : 1); }
};

// A convolution of the model, for counting.
struct ResnetConv {
  std::int64_t kernel = 1, in = 0, made = 0, height = 0, width = 0;  // of what it makes
  bool strided = false;
  double products() const;  // multiply-adds of an image
};
std::vector<ResnetConv> convolutions_of(const ResnetConfig&);

ResnetConfig read_resnet(const Json& config, std::int64_t data_classes, Json& resolved);
std::unique_ptr<ModelDescription> describe_resnet(const Json& config, std::int64_t data_classes);

}  // namespace quadrille
