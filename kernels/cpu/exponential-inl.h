// SPDX-License-Identifier: Apache-2.0
// exp for arguments that are never positive, which is all that softmax, sigmoid and the normal density need. Highway's
// own Exp turns not-a-number into zero and would hide a diverged run. Included once for each instruction set by the
// files that highway/foreach_target.h includes again and again, hence without an include guard.

HWY_BEFORE_NAMESPACE();
namespace quadrille::HWY_NAMESPACE {

// exp(x) = 2^n exp(r), n the integer nearest x / ln 2, |r| <= ln 2 / 2; ln 2 is subtracted in two pieces, the first
// with few bits so that n times it is exact (Cody and Waite 1980). exp(r) by its Taylor series to r^7, below 1e-8 of
// the value. Below -87 (where the result would leave the normal numbers) zero.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_nonpositive(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto small = hn::Lt(x, hn::Set(d, -87.0f));
  const V bounded = hn::IfThenElse(small, hn::Set(d, -87.0f), x);  // not Max: that may lose a NaN
  const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504088896341f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::MulAdd(r, hn::Set(d, 1.0f / 5040), hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(r, p, hn::Set(d, 0.5f));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0f));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0f));
  const hn::RebindToSigned<D> di;
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127))));
  return hn::IfThenZeroElse(small, hn::Mul(p, power));
}

}  // namespace quadrille::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
