// SPDX-License-Identifier: Apache-2.0
// Whether this build has code for a GPU: asks for the attributes of a kernel that does nothing. Used by device.cpp.
#pragma once

#include <cuda_runtime.h>

namespace quadrille {

cudaError_t probe_code();  // of the current device

}  // namespace quadrille
