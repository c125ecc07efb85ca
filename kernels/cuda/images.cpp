// SPDX-License-Identifier: Apache-2.0
// The ops of images are not in this back end yet: each refuses with one message.
#include "core/error.h"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

[[noreturn]] void refuse_images() {
  fail("convolutions are not in the back end \"cuda\" yet: use the back end \"cpu\" for models of images");
}

}  // namespace

Cost CudaOps::conv(Stream&, const Tensor&, const Tensor&, const Tensor&, const Conv&) const { refuse_images(); }
Cost CudaOps::conv_backward_input(Stream&, const Tensor&, const Tensor&, const Tensor&, const Conv&, Write) const {
  refuse_images();
}
Cost CudaOps::conv_backward_weight(Stream&, const Tensor&, const Tensor&, const Tensor&, const Conv&, Write) const {
  refuse_images();
}
Cost CudaOps::channel_sums(Stream&, const Tensor&, const Tensor&) const { refuse_images(); }
Cost CudaOps::batch_norm(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                         const BatchNorm&) const {
  refuse_images();
}
Cost CudaOps::batch_norm_backward_sums(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                       const Tensor&, const BatchNorm&) const {
  refuse_images();
}
Cost CudaOps::batch_norm_backward(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                  const Tensor&, const Tensor&, const BatchNorm&, Write) const {
  refuse_images();
}
Cost CudaOps::batch_norm_backward_parameters(Stream&, const Tensor&, const Tensor&, const Tensor&) const {
  refuse_images();
}
Cost CudaOps::update_averages(Stream&, const Tensor&, const Tensor&, double) const { refuse_images(); }
Cost CudaOps::sums_of_averages(Stream&, const Tensor&, const Tensor&) const { refuse_images(); }
Cost CudaOps::add_relu(Stream&, const Tensor&, const Tensor&, const Tensor&) const { refuse_images(); }
Cost CudaOps::max_pool(Stream&, const Tensor&, const Tensor&, const Conv&) const { refuse_images(); }
Cost CudaOps::max_pool_backward(Stream&, const Tensor&, const Tensor&, const Tensor&, const Conv&) const {
  refuse_images();
}
Cost CudaOps::sum_pixels(Stream&, const Tensor&, const Tensor&, double) const { refuse_images(); }
Cost CudaOps::spread_pixels(Stream&, const Tensor&, const Tensor&, double) const { refuse_images(); }

}  // namespace quadrille
