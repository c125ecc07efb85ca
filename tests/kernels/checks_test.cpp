// SPDX-License-Identifier: Apache-2.0
// What ops refuse, by the words a user would read. All back ends share the checks; each must really call them.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

class Refusals : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const Backend& b : backends())
      if (b.name == GetParam()) backend_ = &b;
    if (!backend_->absent_because.empty()) GTEST_SKIP() << backend_->absent_because;
    device_ = backend_->open_device(0);
    stream_ = device_->make_stream();
  }
  Tensor f32(const Shape& shape) { return device_->empty(shape, DType::f32); }
  Tensor f64(const Shape& shape) { return device_->empty(shape, DType::f64); }
  Tensor i32(const Shape& shape) { return device_->empty(shape, DType::i32); }
  const Ops& ops() const { return backend_->ops(); }
  Stream& s() const { return *stream_; }

  void refused(const std::function<void()>& call, const std::vector<std::string_view>& words) {
    const std::string message = message_of(call);
    for (const std::string_view w : words)
      EXPECT_TRUE(contains(message, w)) << "wanted \"" << w << "\" in: " << message;
  }

  const Backend* backend_ = nullptr;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_P(Refusals, Products) {
  const Tensor a = f32({3, 4}), b = f32({4, 5}), out = f32({3, 5});
  refused([&] { ops().matmul(s(), out, a, a, {}, {}); }, {"matmul", "[3, 5]", "a [3, 4]", "b [3, 4]", "do not fit"});
  refused([&] { ops().matmul(s(), out, a, b, {}, {.a = Transpose::yes}); }, {"matmul", "[3, 4] transposed"});
  refused([&] { ops().matmul(s(), out, a, b, f32({4}), {}); }, {"matmul", "bias", "wanted 5"});
  refused([&] { ops().matmul(s(), out, a, f64({4, 5}), {}, {}); }, {"matmul", "\"b\" is of f64, wanted f32"});
  refused([&] { ops().matmul(s(), out, {}, b, {}, {}); }, {"matmul", "\"a\" is missing"});
  const Tensor square = f32({4, 4});
  refused([&] { ops().matmul(s(), square, square, f32({4, 4}), {}, {}); }, {"matmul", "overlaps"});
  const BlockMove beyond{.outer = 1, .rows = 3, .inner = 5, .out_rows = 3, .out_first = 1, .in_rows = 3, .in_first = 0};
  refused([&] { ops().move_block(s(), out, f32({3, 5}), beyond); }, {"move_block", "[1, 4)", "[0, 3)"});
}

TEST_P(Refusals, AnotherDevice) {
  const std::unique_ptr<Device> other = make_host_device();
  const Tensor here = f32({3}), there = other->empty({3}, DType::f32);
  refused([&] { ops().add(s(), here, here, there); }, {"add", "\"b\"", "another device"});
}

TEST_P(Refusals, Elementwise) {
  const Tensor x = f32({6}), y = f32({6});
  refused([&] { ops().add(s(), x, y, f32({5})); }, {"add", "\"b\" is [5]", "shapes must be equal"});
  refused([&] { ops().gelu(s(), x.rows(1, 5), x.rows(0, 5)); }, {"gelu", "overlaps a part"});
  refused([&] { ops().gelu(s(), i32({6}), i32({6})); }, {"gelu", "i32", "wanted f32, f64 or bf16"});
  const Tensor cube = f32({2, 3, 4});
  refused([&] { ops().dropout(s(), cube, cube, {.probability = 1, .tokens = 3, .features = 4}); },
          {"dropout", "[0, 1)", "found 1"});
  refused([&] { ops().dropout(s(), cube, cube, {.first_token = 1, .tokens = 3, .features = 4}); },
          {"dropout", "tokens [1, 4)"});
}

TEST_P(Refusals, Norms) {
  const Tensor x = f32({3, 8}), out = f32({3, 8}), sums = f64({3, 2}), gain = f32({8});
  refused([&] { ops().norm_sums(s(), f32({3, 2}), x); }, {"norm_sums", "\"sums\" is of f32, wanted f64"});
  refused([&] { ops().norm(s(), out, x, sums, gain, {}, {}); }, {"norm", "width", "found 0"});
  refused([&] { ops().norm(s(), out, x, sums, gain, gain, {.kind = NormKind::rms, .width = 8}); },
          {"norm", "bias", "rms"});
}

TEST_P(Refusals, Attention) {
  quadrille::Attention how{.rows = 1,
                           .q_tokens = 2,
                           .kv_tokens = 2,
                           .groups = 1,
                           .queries = 2,
                           .head = 4,
                           .q_width = 16,
                           .kv_width = 16,
                           .kv_offset = 8};
  const Tensor qkv = f32({1, 2, 1, 16}), dqkv = f32({1, 2, 1, 16}), out = f32({1, 2, 1, 8}), dout = f32({1, 2, 1, 8}),
               log_sum = f32({1, 1, 2, 2});
  refused([&] { ops().attention(s(), out, f32({3}), qkv, qkv, {}, how); }, {"attention", "log_sum", "wanted 4"});
  how.kv_offset = 9;
  refused([&] { ops().attention(s(), out, log_sum, qkv, qkv, {}, how); }, {"attention", "kv_width", "found 16"});
  how.kv_offset = 0;
  refused([&] { ops().attention(s(), out, log_sum, qkv, qkv, f32({1}), how); }, {"attention", "lengths", "f32"});
  refused([&] { ops().attention(s(), out, log_sum, qkv, qkv, i32({2}), how); }, {"attention", "lengths", "wanted 1"});
  refused([&] { ops().attention_backward(s(), dqkv, dqkv, dout, out, log_sum, qkv, qkv, {}, how); },
          {"attention_backward", "packed layout"});
  how.kv_offset = 8, how.dropout = 0.1;
  refused([&] { ops().attention(s(), out, log_sum, qkv, qkv, {}, how); }, {"attention", "heads [0, 2)"});
  how.dropout = 0, how.q_jump = {1, -1};
  refused([&] { ops().attention(s(), out, log_sum, qkv, qkv, {}, how); }, {"attention", "query positions", "by -1"});
  const Tensor part_out = f32({1, 2, 1, 8}), part_log_sum = f32({1, 1, 2, 2});
  refused(
      [&] {
        ops().attention_merge(s(), out, log_sum, f32({1, 2, 1, 4}), part_log_sum);
      },
      {"attention_merge", "part_out"});
  refused(
      [&] {
        ops().attention_merge(s(), out, f32({1, 2, 2, 1}), part_out, f32({1, 2, 2, 1}));
      },
      {"attention_merge", "rows, tokens and groups alike"});
  refused([&] { ops().attention_merge(s(), out, log_sum, out, part_log_sum); }, {"attention_merge", "part_out"});
  refused(
      [&] { ops().rotary(s(), qkv, qkv, {.rows = 1, .tokens = 2, .groups = 1, .width = 16, .heads = 5, .head = 4}); },
      {"rotary", "heads"});
  refused(
      [&] { ops().rotary(s(), qkv, qkv, {.rows = 1, .tokens = 2, .groups = 1, .width = 16, .heads = 1, .head = 3}); },
      {"rotary", "even"});
}

TEST_P(Refusals, Images) {
  const Tensor x = f32({2, 5, 6, 3}), w = f32({3, 3, 3, 4}), out = f32({2, 5, 6, 4});
  const Conv how{3, 3, 1, 1, 1, 1, 1};
  refused([&] { ops().conv(s(), f32({2, 5, 5, 4}), x, w, how); }, {"conv", "found 5", "output width"});
  refused([&] { ops().conv(s(), out, x, f32({3, 3, 4, 4}), how); }, {"conv", "[3, 3, 4, 4]", "[3, 3, 3, 4]"});
  refused([&] { ops().conv(s(), out, x, w, {3, 3, 0}); }, {"conv", "stride of 0"});
  refused([&] { ops().conv(s(), out, x, w, {3, 3, 1, 3, 0, 1, 1}); }, {"conv", "pads less than the kernel"});
  refused([&] { ops().conv(s(), out, f32({5, 6, 3}), w, how); }, {"conv", "\"x\" of [rows, height, width, channels]"});
  refused(
      [&] {
        ops().conv_backward_input(s(), x, f32({3, 5, 6, 4}), w, how, Write::replace);
      },
      {"conv_backward_input", "as many images"});
  refused(
      [&] {
        ops().conv_backward_weight(s(), f64({3, 3, 3, 4}), out, x, how, Write::replace);
      },
      {"conv_backward_weight", "\"dw\" is of f64"});
  refused([&] { ops().max_pool(s(), out, x, how); }, {"max_pool", "as many channels"});
  refused([&] { ops().sum_pixels(s(), f32({2, 4}), x, 1); }, {"sum_pixels", "wanted 6"});
  const Tensor rows = f32({7, 3}), made = f32({7, 3}), gain = f32({3}), sums = f64({3, 3});
  refused([&] { ops().channel_sums(s(), f32({3, 3}), rows); }, {"channel_sums", "wanted f64"});
  refused([&] { ops().channel_sums(s(), f64({2, 3, 3}), rows); }, {"channel_sums", "rows in 2 equal groups"});
  refused([&] { ops().batch_norm(s(), made, rows, sums, gain, f32({4}), {}); }, {"batch_norm", "\"bias\" is [4]"});
  refused(
      [&] {
        ops().batch_norm_backward_sums(s(), f64({3, 2}), made, rows, {}, sums, {1e-5, true});
      },
      {"batch_norm_backward_sums", "\"out\" is missing"});
  refused([&] { ops().update_averages(s(), sums, f64({3, 3}), 1); }, {"update_averages", "momentum", "found 1"});
}

TEST_P(Refusals, EmbeddingAndLoss) {
  refused(
      [&] {
        ops().embedding(s(), f32({3, 4}), f32({9, 4}), f32({3}), 0);
      },
      {"embedding", "\"ids\" is of f32, wanted i32"});
  refused([&] { ops().embedding(s(), f32({3, 4}), f32({9, 4}), i32({2}), 0); }, {"embedding", "one id per row"});
  const Tensor logits = f32({2, 5}), max = f64({2}), sums = f64({2, 3}), labels = i32({2});
  refused([&] { ops().cross_entropy_sums(s(), sums, logits, max, labels, {.first_word = 4, .words = 8}); },
          {"cross_entropy_sums", "[4, 9)", "[0, 8)"});
  refused([&] { ops().cross_entropy_loss(s(), f64({3}), sums, max, labels, {.words = 8}); },
          {"cross_entropy_loss", "loss and count"});
}

TEST_P(Refusals, Training) {
  const Tensor x = f32({3}), g = f32({3}), m = f32({3}), v = f32({3}), scalars = f64({kStepScalars});
  refused([&] { ops().adamw(s(), x, g, m, m, scalars, {}); }, {"adamw", "overlaps"});
  refused([&] { ops().adamw(s(), x, g, m, v, scalars, {.beta1 = 1}); }, {"adamw", "beta1", "found 1"});
  refused([&] { ops().sgd_momentum(s(), x, g, {}, scalars, {.momentum = 0.9}); }, {"sgd_momentum", "0.9", "velocity"});
  refused([&] { ops().lars(s(), x, g, {}, {}, scalars, {}); }, {"lars", "velocity", "missing"});
  refused([&] { ops().lars(s(), x, g, v, f64({3}), scalars, {}); }, {"lars", "norms", "two sums of squares"});
  refused([&] { ops().lars(s(), x, g, v, {}, scalars, {.trust = 0}); }, {"lars", "found 0", "trust coefficient"});
  refused([&] { ops().lars(s(), x, g, g, {}, scalars, {}); }, {"lars", "overlaps"});
  refused([&] { ops().lamb_moments(s(), f64({2}), x, g, m, v, scalars, {}); }, {"lamb_moments", "squares", "single"});
  refused([&] { ops().lamb_moments(s(), {}, x, g, m, v, scalars, {.beta2 = 1}); }, {"lamb_moments", "beta2"});
  refused([&] { ops().lamb_step(s(), x, m, m, {}, scalars, {}); }, {"lamb_step", "overlaps"});
  refused([&] { ops().lamb_step(s(), x, m, v, f32({2}), scalars, {}); }, {"lamb_step", "norms", "f64"});
  refused([&] { ops().step_scalars(s(), scalars, f64({3}), f64({3}), 0); },
          {"step_scalars", "settings", "rate and step"});
}

INSTANTIATE_TEST_SUITE_P(Kernels, Refusals, testing::Values("reference", "cpu", "counting"),
                         [](const auto& info) { return info.param; });

TEST(ReferenceRefusals, NumbersThatAreNotThere) {
  const std::unique_ptr<Device> nowhere = make_counting_device();
  const std::unique_ptr<Stream> stream = nowhere->make_stream();
  const Tensor x = nowhere->empty({3}, DType::f32);
  EXPECT_TRUE(contains(message_of([&] { reference_ops().gelu(*stream, x, x); }), "holds no numbers"));
}

TEST(ReferenceRefusals, ALabelBeyondTheVocabulary) {
  const std::unique_ptr<Device> device = make_host_device();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const Tensor logits = device->empty({1, 5}, DType::f64), max = device->empty({1}, DType::f64),
               sums = device->empty({1, 3}, DType::f64);
  const Tensor labels = device->empty({1}, DType::i32);
  stream->zero(logits), stream->zero(max);
  labels.host<std::int32_t>()[0] = 5;
  EXPECT_TRUE(contains(
      message_of([&] { reference_ops().cross_entropy_sums(*stream, sums, logits, max, labels, {.words = 5}); }),
      "label 5 is beyond the vocabulary of 5 words"));
}

}  // namespace
}  // namespace quadrille
