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
    {"embed_passes_x", 4,
     R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}, "passing": [["embed", "embed", "x"]]})"},
};

// What ranks keep: shards of optimizer state, gradients, weights; two-level sums; recomputation.
inline const std::vector<Layout> kStores = {
    {"zero1_2", 2,
     R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "store": {"weights": [], "gradients": [], "optimizer": ["data"]}})"},
    {"zero2_2", 2,
     R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "store": {"weights": [], "gradients": ["data"], "optimizer": ["data"]}})"},
    {"zero3_2", 2,
     R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"]}})"},
    {"store_with_padding3", 3,
     R"({"mesh": [["z", 3]], "axes": {"vocab": "z"}, "store": {"weights": ["z"], "gradients": ["z"], "optimizer": ["z"]}})"},
    {"zero3_8", 8,
     R"({"mesh": [["data", 8]], "axes": {"batch": "data"}, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"]}})"},
    {"zero3_4_kept", 4,
     R"({"mesh": [["data", 4]], "axes": {"batch": "data"}, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"], "keep_gathered": true}})"},
    {"hybrid_shard4", 4,
     R"({"mesh": [["data", 2], ["shard", 2]], "axes": {"batch": ["data", "shard"]}, "store": {"weights": ["shard"], "gradients": ["shard"], "optimizer": ["shard"]}})"},
    {"hybrid_shard8_optimizer_everywhere", 8,
     R"({"mesh": [["data", 4], ["shard", 2]], "axes": {"batch": ["data", "shard"]}, "store": {"weights": ["shard"], "gradients": ["shard"], "optimizer": ["data", "shard"]}})"},
    {"two_level_sum8", 8,
     R"({"mesh": [["rows", 2], ["columns", 4]], "axes": {"batch": ["rows", "columns"]}, "store": {"weights": [], "gradients": [], "optimizer": ["columns"]}, "sum": "axis_by_axis"})"},
    {"two_level_sum_whole8", 8,
     R"({"mesh": [["rows", 2], ["columns", 2], ["z", 2]], "axes": {"batch": ["rows", "columns", "z"]}, "sum": "axis_by_axis"})"},
    {"store_without_debts2", 2,
     R"({"mesh": [["z", 2]], "axes": {}, "store": {"weights": ["z"], "gradients": ["z"], "optimizer": ["z"]}})"},
    {"store_over_x_and_data4", 4,
     R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data", "x"]}})"},
    {"axonn8", 8,
     R"({"mesh": [["depth", 2], ["y", 2], ["x", 2]], "axes": {"batch": "depth", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}, "store": {"weights": ["depth"], "gradients": ["depth"], "optimizer": ["depth"], "keep_gathered": true}})"},
    {"axonn8_recomputed", 8,
     R"({"mesh": [["depth", 2], ["y", 2], ["x", 2]], "axes": {"batch": "depth", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}, "store": {"weights": ["depth"], "gradients": ["depth"], "optimizer": ["depth"]}, "recompute": "full"})"},
    {"quad4d8", 8,
     R"({"mesh": [["depth", 2], ["y", 2], ["x", 2]], "axes": {"batch": "depth", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}, "passing": [["heads", "heads", "y"], ["mlp", "sequence", "y"], ["vocab", "sequence", "y"]], "store": {"weights": ["depth"], "gradients": ["depth"], "optimizer": ["depth"]}, "recompute": "full"})"},
    {"sequence_recomputed2", 2,
     R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}, "recompute": "full"})"},
};

// Stages, alone and with everything else.
inline const std::vector<Layout> kPipelines = {
    {"pipe2", 2, R"({"mesh": [["pipe", 2]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"},
    {"pipe4_with_empty_stages", 4,
     R"({"mesh": [["pipe", 4]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"},
    {"gpipe2", 2, R"({"mesh": [["pipe", 2]], "axes": {}, "pipeline": {"schedule": "gpipe"}})"},
    {"pipe2_data2", 4,
     R"({"mesh": [["data", 2], ["pipe", 2]], "axes": {"batch": "data"}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"},
    {"pipe2_zero3", 4,
     R"({"mesh": [["pipe", 2], ["data", 2]], "axes": {"batch": "data"}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"]}})"},
    {"pipe2_sends_carried", 2,
     R"({"mesh": [["pipe", 2]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}, "overlap": ["send"]})"},
    {"pipe3_zero3_carried", 6,
     R"({"mesh": [["pipe", 3], ["data", 2]], "axes": {"batch": "data"}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"]}, "overlap": ["reduce_scatter", "all_gather", "send"]})"},
    {"pipe2_zero2_recomputed", 4,
     R"({"mesh": [["pipe", 2], ["data", 2]], "axes": {"batch": "data"}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}, "store": {"weights": [], "gradients": ["data"], "optimizer": ["data"]}, "recompute": "full"})"},
    {"pipe2_tensor2_sequence", 4,
     R"({"mesh": [["pipe", 2], ["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"},
    {"pipe2_y2_x2", 8,
     R"({"mesh": [["pipe", 2], ["y", 2], ["x", 2]], "axes": {"embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}, "passing": [["heads", "heads", "y"]]})"},
    {"pipe2_depth2_x2", 8,
     R"({"mesh": [["pipe", 2], ["depth", 2], ["x", 2]], "axes": {"batch": "depth", "heads": "x", "mlp": "x", "vocab": "x"}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}, "store": {"weights": ["depth"], "gradients": ["depth"], "optimizer": ["depth"]}})"},
};

// Two runs of layers per rank: the micro-batches must be a multiple of the stages.
inline const std::vector<Layout> kInterleaved = {
    {"interleaved2", 2, R"({"mesh": [["pipe", 2]], "axes": {}, "pipeline": {"schedule": "interleaved", "chunks": 2}})"},
    {"interleaved2_carried", 2,
     R"({"mesh": [["pipe", 2]], "axes": {}, "pipeline": {"schedule": "interleaved", "chunks": 2}, "overlap": ["send"]})"},
    {"interleaved2_data2", 4,
     R"({"mesh": [["pipe", 2], ["data", 2]], "axes": {"batch": "data"}, "pipeline": {"schedule": "interleaved", "chunks": 2}, "store": {"weights": [], "gradients": [], "optimizer": ["data"]}})"},
};

constexpr const char* kSerial = "{}";

}  // namespace quadrille::toy
