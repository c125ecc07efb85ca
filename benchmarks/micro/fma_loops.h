// SPDX-License-Identifier: Apache-2.0
// The two loops of the peak probe, in assembly, because a compiler may delete or spill what it can see through. One
// file per processor family, chosen by CMake.
#pragma once

#include <cstdint>
#include <string_view>

namespace quadrille {

struct FmaLoop {
  std::string_view instruction_set;
  double flops_per_cycle;  // upper bound for a core
  double flops_per_round;
  // Runs the rounds; returns false if an accumulator does not hold the value that the arithmetic leads to.
  bool (*run)(std::int64_t rounds) noexcept;
};
const FmaLoop& best_fma_loop();  // throws Error where there is none
inline constexpr double kCyclesPerAdditionRound = 16;
void run_dependent_additions(std::int64_t rounds) noexcept;

}  // namespace quadrille
