// SPDX-License-Identifier: Apache-2.0
// Element-wise ops of the reference, and the sums over rows that belong to them.
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

namespace {

// Φ, the distribution function of the standard normal, and φ, its density. erfc keeps Φ exact far to the left.
double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

Cost ReferenceOps::convert(Stream& stream, const Tensor& out, const Tensor& in) const {
  check_convert(stream, out, in);
  with_type_of(out, [&]<class To>(To) {
    with_type_of(in, [&]<class From>(From) {
      for (std::int64_t i = 0; i < in.count(); ++i) numbers<To>(out)[i] = static_cast<To>(numbers<From>(in)[i]);
    });
  });
  return bill_convert(out, in);
}

Cost ReferenceOps::add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  check_add(stream, out, a, b);
  with_type_of(out, [&]<class T>(T) {
    T* out_at = numbers<T>(out);
    const T* a_at = numbers<T>(a);
    const T* b_at = numbers<T>(b);
    for (std::int64_t i = 0; i < out.count(); ++i) out_at[i] = a_at[i] + b_at[i];
  });
  return bill_add(out, a, b);
}

Cost ReferenceOps::add_bias(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) const {
  const Extents e = check_add_bias(stream, out, x, bias);
  with_type_of(out, [&]<class T>(T) {
    T* out_at = numbers<T>(out);
    const T* x_at = numbers<T>(x);
    const T* bias_at = numbers<T>(bias);
    for (std::int64_t i = 0; i < e.rows * e.columns; ++i) out_at[i] = x_at[i] + bias_at[i % e.columns];
  });
  return bill_add_bias(out, x, bias);
}

Cost ReferenceOps::sum_rows(Stream& stream, const Tensor& out, const Tensor& x, Write write) const {
  const Extents e = check_sum_rows(stream, out, x);
  with_type_of(out, [&]<class T>(T) {
    T* out_at = numbers<T>(out);
    const T* x_at = numbers<T>(x);
    for (std::int64_t j = 0; j < e.columns; ++j) {
      double sum = write == Write::accumulate ? out_at[j] : 0;
      for (std::int64_t i = 0; i < e.rows; ++i) sum += x_at[i * e.columns + j];
      out_at[j] = static_cast<T>(sum);
    }
  });
  return bill_sum_rows(out, x, write);
}

Cost ReferenceOps::gelu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_gelu(stream, out, x);
  with_type_of(out, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    T* out_at = numbers<T>(out);
    for (std::int64_t i = 0; i < out.count(); ++i) {
      const double v = x_at[i];
      out_at[i] = static_cast<T>(v * normal_distribution(v));
    }
  });
  return bill_gelu(out, x);
}

Cost ReferenceOps::relu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_relu(stream, out, x);
  with_type_of(out, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    T* out_at = numbers<T>(out);
    for (std::int64_t i = 0; i < out.count(); ++i) out_at[i] = x_at[i] < 0 ? T{0} : x_at[i];
  });
  return bill_relu(out, x);
}

Cost ReferenceOps::gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) const {
  check_gelu_backward(stream, dx, dy, x);
  with_type_of(dx, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    T* dx_at = numbers<T>(dx);
    const T* dy_at = numbers<T>(dy);
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      const double v = x_at[i];
      dx_at[i] = static_cast<T>(dy_at[i] * (normal_distribution(v) + v * normal_density(v)));
    }
  });
  return bill_gelu_backward(dx, dy, x);
}

Cost ReferenceOps::tanh(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_tanh(stream, out, x);
  with_type_of(out, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    T* out_at = numbers<T>(out);
    for (std::int64_t i = 0; i < out.count(); ++i) out_at[i] = static_cast<T>(std::tanh(static_cast<double>(x_at[i])));
  });
  return bill_tanh(out, x);
}

Cost ReferenceOps::tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) const {
  check_tanh_backward(stream, dx, dy, y);
  with_type_of(dx, [&]<class T>(T) {
    const T* y_at = numbers<T>(y);
    T* dx_at = numbers<T>(dx);
    const T* dy_at = numbers<T>(dy);
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      const double v = y_at[i];
      dx_at[i] = static_cast<T>(dy_at[i] * (1 - v * v));
    }
  });
  return bill_tanh_backward(dx, dy, y);
}

Cost ReferenceOps::gated_silu(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) const {
  check_gated_silu(stream, out, gate, up);
  with_type_of(out, [&]<class T>(T) {
    const T* gate_at = numbers<T>(gate);
    T* out_at = numbers<T>(out);
    const T* up_at = numbers<T>(up);
    for (std::int64_t i = 0; i < out.count(); ++i) {
      const double g = gate_at[i];
      out_at[i] = static_cast<T>(g * sigmoid(g) * up_at[i]);
    }
  });
  return bill_gated_silu(out, gate, up);
}

Cost ReferenceOps::gated_silu_backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                                       const Tensor& gate, const Tensor& up) const {
  check_gated_silu_backward(stream, dgate, dup, dy, gate, up);
  with_type_of(dgate, [&]<class T>(T) {
    const T* gate_at = numbers<T>(gate);
    const T* up_at = numbers<T>(up);
    const T* dy_at = numbers<T>(dy);
    T* dgate_at = numbers<T>(dgate);
    T* dup_at = numbers<T>(dup);
    for (std::int64_t i = 0; i < dgate.count(); ++i) {  // all read before the first write: outputs may be inputs
      const double g = gate_at[i], u = up_at[i], d = dy_at[i], s = sigmoid(g);
      dgate_at[i] = static_cast<T>(d * u * s * (1 + g * (1 - s)));
      dup_at[i] = static_cast<T>(d * g * s);
    }
  });
  return bill_gated_silu_backward(dgate, dup, dy, gate, up);
}

Cost ReferenceOps::dropout(Stream& stream, const Tensor& out, const Tensor& x, const Dropout& how) const {
  check_dropout(stream, out, x, how);
  const std::int64_t rows = x.shape()[0], tokens = x.shape()[1], features = x.shape()[2];
  with_type_of(out, [&]<class T>(T) {
    T* out_at = numbers<T>(out);
    const T* x_at = numbers<T>(x);
    for (std::int64_t b = 0; b < rows; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t f = 0; f < features; ++f) {
          const std::int64_t here = (b * tokens + t) * features + f;
          const std::int64_t whole =
              ((how.first_row + b) * how.tokens + position_of(how.first_token, how.jump, t)) * how.features +
              how.first_feature + f;
          const bool kept = uniform_at(how.key, static_cast<std::uint64_t>(whole)) >= how.probability;
          out_at[here] = kept ? static_cast<T>(x_at[here] / (1 - how.probability)) : T{0};
        }
  });
  return bill_dropout(out, x);
}

}  // namespace quadrille
