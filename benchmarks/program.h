// SPDX-License-Identifier: Apache-2.0
// The whole program but main(): reads the command line, runs one verb, and turns whatever goes wrong into one message
// and an exit code. Apart from main() so that the tests' faulty program is this very one, with a hand in its worlds.
#pragma once

#include "benchmarks/commands.h"

namespace quadrille {

// Returns the exit code. `wrap`, if any, replaces each rank's world before the rank sees it.
int run_program(int count, const char* const* words, const WrapWorld& wrap = {});

}  // namespace quadrille
