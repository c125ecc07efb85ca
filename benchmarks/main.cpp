// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/program.h"

int main(int count, char** words) { return quadrille::run_program(count, words); }
