// SPDX-License-Identifier: Apache-2.0
// The strategy tables under which the toy residual network is held to the serial run. Those of the toy GPT hold for it
// as they are; here are its own, with a height that is split.
#pragma once

#include "tests/training/layouts.h"

namespace quadrille::toy {

inline const std::vector<Layout> kHeights = {
    {"height2", 2, R"({"mesh": [["h", 2]], "axes": {"height": "h"}})"},
    {"height3", 3, R"({"mesh": [["h", 3]], "axes": {"height": "h"}})"},
    {"height4", 4, R"({"mesh": [["h", 4]], "axes": {"height": "h"}})"},
    {"height8", 8, R"({"mesh": [["h", 8]], "axes": {"height": "h"}})"},
    {"height2_2", 4, R"({"mesh": [["g", 2], ["h", 2]], "axes": {"height": ["g", "h"]}})"},
    {"data2_height2", 4, R"({"mesh": [["data", 2], ["h", 2]], "axes": {"batch": "data", "height": "h"}})"},
    {"height2_tensor2", 4, R"({"mesh": [["h", 2], ["x", 2]], "axes": {"height": "h", "mlp": "x", "vocab": "x"}})"},
    {"height3_y2", 6, R"({"mesh": [["h", 3], ["y", 2]], "axes": {"height": "h", "embed": "y"}})"},
    {"height2_y2_x2", 8,
     R"({"mesh": [["h", 2], ["y", 2], ["x", 2]], "axes": {"height": "h", "embed": "y", "mlp": "x", "vocab": "x"}})"},
    {"data2_height2_zero3_recomputed", 4,
     R"({"mesh": [["data", 2], ["h", 2]], "axes": {"batch": "data", "height": "h"}, "store": {"weights": ["data", "h"], "gradients": ["data", "h"], "optimizer": ["data", "h"]}, "recompute": "full"})"},
    {"height4_gradients_early", 4,
     R"({"mesh": [["h", 2], ["x", 2]], "axes": {"height": "h", "mlp": "x", "vocab": "x"}, "overlap": ["input_gradient"]})"},
};

}  // namespace quadrille::toy
