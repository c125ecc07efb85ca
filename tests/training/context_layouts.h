// SPDX-License-Identifier: Apache-2.0
// Strategy tables that keep the sequence of the toy GPT (8 tokens, 4 heads) split through attention.
#pragma once

#include "tests/training/layouts.h"

namespace quadrille::toy {

inline const std::vector<Layout> kContextLayouts = {
    {"gather2", 2, R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}})"},
    {"gather4", 4, R"({"mesh": [["c", 4]], "axes": {"sequence": "c"}})"},
    {"gather2_plain", 2, R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}, "context": {"balanced": false}})"},
    {"gather3_uneven", 3, R"({"mesh": [["c", 3]], "axes": {"sequence": "c"}, "context": {"balanced": false}})"},
    {"turn2", 2, R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}, "context": {"attention": "turn"}})"},
    {"turn4", 4, R"({"mesh": [["c", 4]], "axes": {"sequence": "c"}, "context": {"attention": "turn"}})"},
    {"ring2", 2, R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}, "context": {"attention": "ring"}})"},
    {"ring4", 4, R"({"mesh": [["c", 4]], "axes": {"sequence": "c"}, "context": {"attention": "ring"}})"},
    {"ring4_plain", 4,
     R"({"mesh": [["c", 4]], "axes": {"sequence": "c"}, "context": {"attention": "ring", "balanced": false}})"},
    {"ring3_uneven", 3,
     R"({"mesh": [["c", 3]], "axes": {"sequence": "c"}, "context": {"attention": "ring", "balanced": false}})"},
    {"data2_ring2", 4,
     R"({"mesh": [["data", 2], ["c", 2]], "axes": {"batch": "data", "sequence": "c"}, "context": {"attention": "ring"}})"},
    {"gather2_data2", 4, R"({"mesh": [["c", 2], ["data", 2]], "axes": {"batch": "data", "sequence": "c"}})"},
    {"gather2_x2", 4,
     R"({"mesh": [["c", 2], ["x", 2]], "axes": {"sequence": "c", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"turn2_x2", 4,
     R"({"mesh": [["c", 2], ["x", 2]], "axes": {"sequence": "c", "heads": "x", "mlp": "x", "vocab": "x"},
         "context": {"attention": "turn"}})"},
    {"ring2_x2_sequence", 4,
     R"({"mesh": [["c", 2], ["x", 2]], "axes": {"sequence": ["c", "x"], "heads": "x", "mlp": "x", "vocab": "x"},
         "context": {"attention": "ring"}})"},
    {"gather2_x4_sequence", 8,
     R"({"mesh": [["c", 2], ["x", 4]], "axes": {"sequence": ["c", "x"], "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"turn2_x2_sequence", 4,
     R"({"mesh": [["c", 2], ["x", 2]], "axes": {"sequence": ["c", "x"], "heads": "x", "mlp": "x", "vocab": "x"},
         "context": {"attention": "turn"}})"},
    {"gather2_y2", 4, R"({"mesh": [["c", 2], ["y", 2]], "axes": {"sequence": "c", "embed": "y"}})"},
    {"ring2x2", 4,
     R"({"mesh": [["d", 2], ["c", 2]], "axes": {"sequence": ["c", "d"]}, "context": {"attention": "ring"}})"},
    {"turn2x2", 4,
     R"({"mesh": [["c", 2], ["d", 2]], "axes": {"sequence": ["c", "d"]}, "context": {"attention": "turn"}})"},
    {"gather2_words", 2, R"({"mesh": [["c", 2]], "axes": {"sequence": "c", "mlp": "c", "vocab": "c"}})"},
    {"ring2_y2_x2", 8,
     R"({"mesh": [["c", 2], ["y", 2], ["x", 2]],
         "axes": {"sequence": ["c", "x"], "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"},
         "passing": [["heads", "heads", "y"], ["mlp", "sequence", "y"], ["vocab", "sequence", "y"]],
         "context": {"attention": "ring"}})"},
    {"data2_turn2_x2", 8,
     R"({"mesh": [["data", 2], ["c", 2], ["x", 2]],
         "axes": {"batch": "data", "sequence": "c", "heads": "x", "mlp": "x", "vocab": "x"},
         "context": {"attention": "turn"}})"},
    {"gather2_sequence_passes_y", 4,
     R"({"mesh": [["c", 2], ["y", 2]], "axes": {"sequence": "c", "embed": "y"}, "passing": [["heads", "sequence", "y"]]})"},
};

}  // namespace quadrille::toy
