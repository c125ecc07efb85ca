// SPDX-License-Identifier: Apache-2.0
// The cases that judge every back end: for each op of ops.h several shapes and options. A case is run on the back end
// under judgement and on the reference in f64, from the same numbers, and the results are compared; the bill is
// compared with the counting back end's. Used by the tests here; free of any test framework.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/bills.h"
#include "tests/kernels/bench.h"

namespace quadrille {

struct OpCase {
  std::string op;    // the function of Ops
  std::string name;  // op and what is special, unique
  std::function<void(Bench&)> run;
  bool images = false;  // back ends without convolutions refuse it
};

const std::vector<OpCase>& op_cases();

struct Verdict {
  std::vector<std::string> complaints;  // empty: agrees
  bool refused = false;                 // the op threw an Error; its message is the complaint
  double worst = 0;                     // largest error, in tolerances
  bool agrees() const { return complaints.empty(); }
};

// `attention`: of the back end, for its bill.
Verdict judge(const OpCase&, const Ops&, Device&, DType real, const AttentionBilling& attention);

// The themes, one file each.
void add_product_cases(std::vector<OpCase>&);
void add_elementwise_cases(std::vector<OpCase>&);
void add_norm_cases(std::vector<OpCase>&);
void add_attention_cases(std::vector<OpCase>&);
void add_embedding_and_loss_cases(std::vector<OpCase>&);
void add_image_cases(std::vector<OpCase>&);
void add_training_cases(std::vector<OpCase>&);

}  // namespace quadrille
