// SPDX-License-Identifier: Apache-2.0
// Where the small data of the tests lie: places.cpp is written by CMake, which knows.
#pragma once

#include <string>

namespace quadrille {

std::string test_data();  // "<the checkout>/tests/data/"

}  // namespace quadrille
