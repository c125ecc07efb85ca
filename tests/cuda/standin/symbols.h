// SPDX-License-Identifier: Apache-2.0
// The program's own symbol table: names of kernels, and where the __shared__ variables of this thread are. Used by
// block.cpp and for messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace standin {

std::string name_of(const void* kernel);
// Of the calling thread: variables local to functions of .cu files and of headers. All are counted as __shared__: the
// headers of this project have no thread_local of another kind.
std::vector<std::span<std::byte>> shared_variables();

}  // namespace standin
