// SPDX-License-Identifier: Apache-2.0
// How many buffers the program has asked for through operator new. Used by cpu_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quadrille {

inline constexpr std::size_t kBufferBytes = 512;  // what checks spend on the text of a message is less
std::int64_t buffers_allocated();

}  // namespace quadrille
