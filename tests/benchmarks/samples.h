// SPDX-License-Identifier: Apache-2.0
// A run that went well, with every field filled: tests change one thing and look what happens.
#pragma once

#include "benchmarks/harness/record.h"

namespace quadrille {

Record good_record();

}  // namespace quadrille
