// SPDX-License-Identifier: Apache-2.0
// What the tests of the program share: a run that went well, with every field filled (tests change one thing and look
// what happens), and a place for their files.
#pragma once

#include <string>

#include "benchmarks/harness/record.h"

namespace quadrille {

Record good_record();

// A path in a folder of this process alone, which goes away with it: tests run side by side.
std::string scratch(const std::string& name);

}  // namespace quadrille
