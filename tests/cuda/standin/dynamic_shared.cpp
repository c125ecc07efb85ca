// SPDX-License-Identifier: Apache-2.0
// The dynamic shared memory of the block that runs in this thread. Kernels declare it as
// `extern __shared__ uint4 dynamic_shared_memory[];` in namespace quadrille (kernels/cuda/device_code.cuh).
#include "tests/cuda/standin/block.h"

namespace quadrille {
thread_local uint4 dynamic_shared_memory[standin::kSharedBytes / sizeof(uint4)];
}  // namespace quadrille

namespace standin {
std::span<std::byte> dynamic_shared() { return std::as_writable_bytes(std::span(quadrille::dynamic_shared_memory)); }
}  // namespace standin
