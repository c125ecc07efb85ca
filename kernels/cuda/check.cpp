// SPDX-License-Identifier: Apache-2.0
// The words of failed library calls. cuDNN keeps a longer text about the calling thread's last error than its status.
#include "kernels/cuda/check.h"

#include <array>
#include <string>
#include <string_view>

#include "core/error.h"

namespace quadrille {

namespace {

[[noreturn]] void stop(std::string_view library, std::string_view words, const std::source_location& place) {
  const std::string_view file = place.file_name();
  fail("{} at {}:{}: {}", library, file.substr(file.rfind('/') + 1), place.line(), words);
}

}  // namespace

void check(cublasStatus_t status, std::source_location place) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  stop("cuBLASLt", cublasLtGetStatusString(status), place);
}

void check(cudnnStatus_t status, std::source_location place) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> more{};
  cudnnGetLastErrorString(more.data(), more.size());
  stop("cuDNN",
       more[0] == '\0' ? cudnnGetErrorString(status) : fmt::format("{}: {}", cudnnGetErrorString(status), more.data()),
       place);
}

}  // namespace quadrille
