// SPDX-License-Identifier: Apache-2.0
// The strategy tables under which the toy GPT is held to the serial run: 1D, 2D, nested, sequence, passing.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace quadrille::toy {

// One way to split the toy GPT.
struct Layout {
  std::string name;
  int ranks;
  std::string table;
};
inline void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }

inline const std::vector<Layout> kLayouts = {
    {"data2", 2, R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})"},
    {"data4", 4, R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})"},
    {"data8", 8, R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})"},
    {"data2_depth2", 4, R"({"mesh": [["data", 2], ["depth", 2]], "axes": {"batch": ["data", "depth"]}})"},
    {"tensor2", 2, R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"tensor4", 4, R"({"mesh": [["x", 4]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"data2_tensor2", 4,
     R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"data2_tensor4", 8,
     R"({"mesh": [["data", 2], ["x", 4]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"tensor2_data2", 4,
     R"({"mesh": [["x", 2], ["data", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"mlp_only2", 2, R"({"mesh": [["x", 2]], "axes": {"mlp": "x"}})"},
    {"vocab_only3", 3, R"({"mesh": [["x", 3]], "axes": {"vocab": "x"}})"},
    {"embed2", 2, R"({"mesh": [["y", 2]], "axes": {"embed": "y"}})"},
    {"y2_x2", 4, R"({"mesh": [["y", 2], ["x", 2]], "axes": {"embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"data2_y2_x2", 8,
     R"({"mesh": [["data", 2], ["y", 2], ["x", 2]], "axes": {"batch": "data", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"tensor2_sequence", 2,
     R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})"},
    {"data2_tensor4_sequence", 8,
     R"({"mesh": [["data", 2], ["x", 4]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})"},
    {"heads_pass_y", 4,
     R"({"mesh": [["y", 2], ["x", 2]], "axes": {"embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}, "passing": [["heads", "heads", "y"]]})"},
};

constexpr const char* kSerial = "{}";

}  // namespace quadrille::toy
