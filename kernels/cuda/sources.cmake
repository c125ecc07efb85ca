# SPDX-License-Identifier: Apache-2.0
# The files of the cuda back end, for the CUDA compiler (kernels/CMakeLists.txt) and for the stand-in of the tests
# (tests/cuda/CMakeLists.txt): own kernels, and what goes through NVIDIA's libraries. `cuda_driver_side` is replaced by
# the stand-in of cuDNN's graph API.
set(cuda_folder ${CMAKE_SOURCE_DIR}/kernels/cuda)
set(cuda_kernels backend.cpp ops.cpp attention.cu attention_backward.cu elementwise.cu embedding.cu images.cpp loss.cu moves.cu norm.cu rotary.cu training.cu)
set(cuda_libraries check.cpp libraries.cpp gemm.cpp bias_rows.cu sdpa.cpp sdpa_graph.cpp)
set(cuda_driver_side cudnn_graph.cpp)
foreach(list cuda_kernels cuda_libraries cuda_driver_side)
  list(TRANSFORM ${list} PREPEND ${cuda_folder}/)
endforeach()
