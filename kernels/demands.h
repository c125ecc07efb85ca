// SPDX-License-Identifier: Apache-2.0
// The words in which checks*.cpp state what an op demands: `Check` knows the op's name and stream, so that each demand
// is one line and each refusal names the op, the operand, what was found and what was wanted.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/error.h"
#include "kernels/checks.h"

namespace quadrille {

struct Named {
  std::string_view name;
  const Tensor& tensor;
};
using Names = std::initializer_list<Named>;

class Check {
 public:
  Check(std::string_view op, const Stream& stream) : op_(op), stream_(stream) {}

  void here(Named t) const {
    require(static_cast<bool>(t.tensor), "{}: operand \"{}\" is missing", op_, t.name);
    require(&t.tensor.device() == &stream_.device(),
            "{}: \"{}\" lives on another device (\"{}\") than the stream (\"{}\"): copy it first", op_, t.name,
            t.tensor.device().name(), stream_.device().name());
  }
  void type(DType wanted, Names tensors) const {
    for (const Named& t : tensors) {
      here(t);
      require(t.tensor.dtype() == wanted, "{}: \"{}\" is of {}, wanted {}", op_, t.name, name_of(t.tensor.dtype()),
              name_of(wanted));
    }
  }
  // All of the first one's floating type.
  void real(Names tensors) const {
    const Named& first = *tensors.begin();
    here(first);
    require(first.tensor.dtype() != DType::i32, "{}: \"{}\" is of i32, wanted f32, f64 or bf16", op_, first.name);
    type(first.tensor.dtype(), tensors);
  }
  // Of this type or of its wide one.
  void maybe_wide(Named t, DType narrow) const {
    here(t);
    const DType found = t.tensor.dtype();
    require(found == narrow || found == wide(narrow), "{}: \"{}\" is of {}, wanted {}{}", op_, t.name, name_of(found),
            name_of(narrow), wide(narrow) == narrow ? "" : " or f32");
  }
  void same_shape(Named t, Named as) const {
    require(t.tensor.shape() == as.tensor.shape(), "{}: \"{}\" is {}, but \"{}\" is {}: shapes must be equal", op_,
            t.name, t.tensor.shape().text(), as.name, as.tensor.shape().text());
  }
  // The same, and of the first one's shape.
  void alike(Names tensors) const {
    real(tensors);
    const Named& first = *tensors.begin();
    for (const Named& t : tensors) same_shape(t, first);
  }
  Extents matrix(Named t) const {
    require(t.tensor.shape().rank() >= 1, "{}: \"{}\" is a single number, wanted rows and columns", op_, t.name);
    const int last = t.tensor.shape().rank() - 1;
    return {t.tensor.shape().count(0, last), t.tensor.shape()[last]};
  }
  void count(Named t, std::int64_t wanted, std::string_view what) const {
    require(t.tensor.count() == wanted, "{}: \"{}\" is {}, that is {} numbers, wanted {} = {}", op_, t.name,
            t.tensor.shape().text(), t.tensor.count(), wanted, what);
  }
  void apart(Named out, Names inputs) const {
    for (const Named& in : inputs)
      require(!out.tensor.overlaps(in.tensor), "{}: \"{}\" overlaps \"{}\": it needs memory of its own", op_, out.name,
              in.name);
  }
  void apart_or_same(Named out, Names inputs) const {
    for (const Named& in : inputs)
      require(!out.tensor.overlaps(in.tensor) || out.tensor.same_place(in.tensor),
              "{}: \"{}\" overlaps a part of \"{}\": it must be the same tensor or apart", op_, out.name, in.name);
  }
  template <class T>
  void that(bool condition, std::string_view what, T found) const {
    require(condition, "{}: found {}, wanted {}", op_, found, what);
  }
  void part(std::string_view what, std::int64_t first, std::int64_t count, std::int64_t whole) const {
    require(first >= 0 && first + count <= whole, "{}: {} [{}, {}) are not inside the whole [0, {})", op_, what, first,
            first + count, whole);
  }
  // The positions of `tokens` tokens, in order and inside the whole.
  void positions(std::string_view what, std::int64_t first, const Jump& jump, std::int64_t tokens,
                 std::int64_t whole) const {
    require(jump.after >= 0 && jump.by >= 0, "{}: {} jump after token {} by {}: no negative numbers are wanted", op_,
            what, jump.after, jump.by);
    part(what, first, tokens + (jump.after < tokens ? jump.by : 0), whole);
  }

 private:
  std::string_view op_;
  const Stream& stream_;
};

}  // namespace quadrille
