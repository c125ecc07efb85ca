// SPDX-License-Identifier: Apache-2.0
// Data for a toy of any model, by the fields it reads: text, images, pairs, or rows with masked words. Every number is
// a function of its address, and labels are masked unevenly. Used by `quadrille check` and the law tests.
#pragma once

#include <cstdint>
#include <memory>

#include "training/law/addressed_text.h"
#include "training/trainer.h"

namespace quadrille {

std::unique_ptr<Dataset> law_data(const Workload&, std::int64_t samples);

}  // namespace quadrille
