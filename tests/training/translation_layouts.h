// SPDX-License-Identifier: Apache-2.0
// The strategy tables under which the toy encoder-decoder is held to the serial run, beside those of the toy GPT: its
// two stacks of two layers cut into stages at every place.
#pragma once

#include "tests/training/layouts.h"

namespace quadrille::toy {

// Of 2 + 2 layers: two stages are cut between the stacks, three inside the encoder's end and the decoder, four inside
// of both, six leave two without layers.
inline const std::vector<Layout> kStacks = {
    {"pipe3", 3, R"({"mesh": [["pipe", 3]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"},
    {"pipe4", 4, R"({"mesh": [["pipe", 4]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"},
    {"pipe6_with_empty_stages", 6,
     R"({"mesh": [["pipe", 6]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"},
    {"gpipe4", 4, R"({"mesh": [["pipe", 4]], "axes": {}, "pipeline": {"schedule": "gpipe"}})"},
    {"pipe4_sends_carried", 4,
     R"({"mesh": [["pipe", 4]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}, "overlap": ["send"]})"},
    {"pipe3_recomputed", 3,
     R"({"mesh": [["pipe", 3]], "axes": {}, "pipeline": {"axis": "pipe"}, "recompute": "full"})"},
    {"pipe4_data2_zero3", 8,
     R"({"mesh": [["pipe", 4], ["data", 2]], "axes": {"batch": "data"}, "pipeline": {"axis": "pipe"},
         "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"]}})"},
    {"pipe4_x2_sequence", 8,
     R"({"mesh": [["pipe", 4], ["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"},
         "pipeline": {"axis": "pipe"}})"},
    {"pipe3_ring2", 6,
     R"({"mesh": [["pipe", 3], ["c", 2]], "axes": {"sequence": "c"}, "pipeline": {"axis": "pipe"},
         "context": {"attention": "ring"}})"},
};

}  // namespace quadrille::toy
