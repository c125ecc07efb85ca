// SPDX-License-Identifier: Apache-2.0
// What the files that implement the runtime's calls share.
#pragma once

#include "tests/cuda/standin/streams.h"

namespace standin {

int current_device();                  // of the calling thread
cudaError_t keep(cudaError_t);         // for cudaGetLastError
cudaError_t drain(Lock&, int device);  // everything queued on it is done

}  // namespace standin
