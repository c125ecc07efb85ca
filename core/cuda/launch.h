// SPDX-License-Identifier: Apache-2.0
// The one way in which kernels are started: a function instead of <<<>>>, so that arguments are type-checked and the
// same source is compiled by nvcc for GPUs and by the host compiler for the stand-in of the tests. A grid without
// blocks starts nothing. Included by */cuda/ only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "core/cuda/check.h"

namespace quadrille {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block
};

// A kernel's argument takes the parameter's type first, so that the pointers handed to the runtime point to what the
// kernel reads.
template <class... Parameters>
void launch(cudaStream_t stream, const Grid& grid, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  void* addresses[sizeof...(Parameters) + 1] = {static_cast<void*>(&arguments)...};  // a kernel may take none
  check(cudaLaunchKernel(kernel, grid.blocks, grid.threads, addresses, grid.shared_bytes, stream));
}

}  // namespace quadrille
