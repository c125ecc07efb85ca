// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/harness/waiting.h"
#include "benchmarks/program.h"

int main(int count, char** words) {
  quadrille::spin_briefly_then_sleep(words);
  return quadrille::run_program(count, words);
}
