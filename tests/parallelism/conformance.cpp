// SPDX-License-Identifier: Apache-2.0
#include "tests/parallelism/conformance.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "core/arena.h"
#include "core/bf16.h"
#include "core/device.h"
#include "core/error.h"

namespace quadrille::testing {

namespace {

// What numbers of a type are combined in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

// Numbers whose sum depends on the order in which they are added.
template <class T>
T value(int rank, std::int64_t index) {
  std::uint64_t x = static_cast<std::uint64_t>(rank + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(index);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  const auto small = static_cast<std::int64_t>(x % 2000003) - 1000001;
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(small);
  else
    return static_cast<T>(static_cast<Wide<T>>(static_cast<double>(small) / 7.0 * (x % 5 == 0 ? 1e4 : 1e-3)));
}

class Check {
 public:
  // All tensors are from one arena, as in a training step: giving back an allocation of a device's own would wait for
  // all that is under way there.
  Check(Communicator& group, Device& device, std::int64_t largest)
      : group_(group),
        host_(make_host_device()),
        stream_(device.make_stream()),
        arena_(device, 8 * (8 * largest * group.size() + 4096)) {}

  template <class T>
  void all(std::int64_t count) {
    gather<T>(count);
    transpose<T>(count);
    for (int root = 0; root < group_.size(); ++root) broadcast<T>(count, root);
    neighbours<T>(count);
    if constexpr (!std::is_integral_v<T>) {
      for (const Reduce reduce : {Reduce::sum, Reduce::max}) {
        all_reduce<T>(count, reduce);
        reduce_scatter<T>(count, reduce);
        in_place<T>(count, reduce);
      }
    }
  }

  void exchange() {
    Json mine = Json::object();
    mine.set("rank", group_.rank());
    mine.set("text", std::string(static_cast<std::size_t>(group_.rank()) * 3000, 'x'));
    const auto all = group_.exchange(mine);
    require(static_cast<int>(all.size()) == group_.size(), "exchange gave {} values", all.size());
    for (int rank = 0; rank < group_.size(); ++rank) {
      const Json& one = all[static_cast<std::size_t>(rank)];
      require(
          one.at("rank").integer() == rank && one.at("text").string().size() == static_cast<std::size_t>(rank) * 3000,
          "exchange: the value of rank {} is wrong", rank);
    }
    group_.barrier();
  }

  std::uint64_t digest() const { return digest_; }

 private:
  int n() const { return group_.size(); }
  int me() const { return group_.rank(); }

  template <class T>
  Tensor tensor(std::int64_t count) {
    return arena_.empty({count}, dtype_of<T>(), End::low);
  }
  template <class T>
  Tensor filled(std::int64_t count, int rank) {
    Tensor t = tensor<T>(count), host = host_->empty({count}, dtype_of<T>());
    for (std::int64_t i = 0; i < count; ++i) host.as<T>()[i] = value<T>(rank, i);
    stream_->copy(t, host);
    on_their_way_.push_back(host);  // the stream may come to it later
    return t;
  }
  template <class T, class Formula>
  void expect(const std::string& what, const Tensor& there, Formula formula) {
    const Tensor found = host_->empty(there.shape(), there.dtype());
    stream_->copy(found, there);
    stream_->synchronize();
    on_their_way_.clear();
    for (std::int64_t i = 0; i < found.count(); ++i) {
      const T wanted = formula(i), got = found.as<T>()[i];
      require(std::memcmp(&wanted, &got, sizeof(T)) == 0, "{} over {} of {} ({} {}): element {} is {}, {} was wanted",
              what, group_.name(), n(), found.count(), name_of(found.dtype()), i, static_cast<Wide<T>>(got),
              static_cast<Wide<T>>(wanted));
    }
    const auto* bytes = static_cast<const unsigned char*>(found.data());
    for (std::int64_t i = 0; i < found.bytes(); ++i) digest_ = (digest_ ^ bytes[i]) * 0x100000001b3u;
  }
  template <class T>
  T serial(std::int64_t index, Reduce reduce) const {
    auto result = static_cast<Wide<T>>(value<T>(0, index));
    for (int rank = 1; rank < n(); ++rank) {
      const auto next = static_cast<Wide<T>>(value<T>(rank, index));
      if (reduce == Reduce::sum)
        result += next;
      else if (next > result)
        result = next;
    }
    return static_cast<T>(result);
  }

  template <class T>
  void all_reduce(std::int64_t count, Reduce reduce) {
    const Tensor t = filled<T>(count, me());
    group_.all_reduce(t, reduce, *stream_).wait(*stream_);
    expect<T>("all_reduce", t, [&](std::int64_t i) { return serial<T>(i, reduce); });
  }
  template <class T>
  void reduce_scatter(std::int64_t count, Reduce reduce) {
    const Tensor full = filled<T>(count * n(), me()), mine = tensor<T>(count);
    group_.reduce_scatter(mine, full, reduce, *stream_).wait(*stream_);
    expect<T>("reduce_scatter", mine, [&](std::int64_t i) { return serial<T>(me() * count + i, reduce); });
    expect<T>("reduce_scatter's source", full, [&](std::int64_t i) { return value<T>(me(), i); });
  }
  template <class T>
  void in_place(std::int64_t count, Reduce reduce) {
    const Tensor full = filled<T>(count * n(), me()), mine = full.rows(me() * count, count);
    group_.reduce_scatter(mine, full, reduce, *stream_).wait(*stream_);
    expect<T>("reduce_scatter in place", mine, [&](std::int64_t i) { return serial<T>(me() * count + i, reduce); });
    group_.all_gather(full, mine, *stream_).wait(*stream_);
    expect<T>("all_gather in place", full, [&](std::int64_t i) { return serial<T>(i, reduce); });
  }
  template <class T>
  void gather(std::int64_t count) {
    const Tensor mine = filled<T>(count, me()), full = tensor<T>(count * n());
    group_.all_gather(full, mine, *stream_).wait(*stream_);
    expect<T>("all_gather", full, [&](std::int64_t i) { return value<T>(static_cast<int>(i / count), i % count); });
  }
  template <class T>
  void transpose(std::int64_t count) {
    const Tensor in = filled<T>(count * n(), me()), out = tensor<T>(count * n());
    group_.all_to_all(out, in, *stream_).wait(*stream_);
    expect<T>("all_to_all", out,
              [&](std::int64_t i) { return value<T>(static_cast<int>(i / count), me() * count + i % count); });
  }
  template <class T>
  void broadcast(std::int64_t count, int root) {
    const Tensor t = filled<T>(count, me());
    group_.broadcast(t, root, *stream_).wait(*stream_);
    expect<T>("broadcast", t, [&](std::int64_t i) { return value<T>(root, i); });
  }
  // Two messages each way to both neighbours, the receives waited for in the other order, a collective in between.
  template <class T>
  void neighbours(std::int64_t count) {
    if (n() == 1) return;
    const int right = (me() + 1) % n(), left = (me() + n() - 1) % n();
    const Tensor a = tensor<T>(count), b = tensor<T>(count + 3), c = tensor<T>(count);
    Ticket first = group_.receive(a, left, *stream_), second = group_.receive(b, left, *stream_);
    Tensor source = filled<T>(count, me());
    group_.send(source, right, *stream_).wait(*stream_);
    source = Tensor();
    group_.barrier();
    group_.send(filled<T>(count + 3, me() + 100), right, *stream_).wait(*stream_);
    { Ticket dropped = group_.send(filled<T>(count, me() + 200), left, *stream_); }
    Ticket third = group_.receive(c, right, *stream_);
    std::move(third).wait(*stream_);
    std::move(second).wait(*stream_);
    std::move(first).wait(*stream_);
    expect<T>("receive", a, [&](std::int64_t i) { return value<T>(left, i); });
    expect<T>("second receive", b, [&](std::int64_t i) { return value<T>(left + 100, i); });
    expect<T>("receive from the right", c, [&](std::int64_t i) { return value<T>(right + 200, i); });
  }

  Communicator& group_;
  std::unique_ptr<Device> host_;
  std::unique_ptr<Stream> stream_;
  Arena arena_;
  std::vector<Tensor> on_their_way_;
  std::uint64_t digest_ = 0xcbf29ce484222325u;
};

std::uint64_t check_group(Communicator& group, const std::vector<std::int64_t>& sizes, Device& device) {
  Check check(group, device, *std::max_element(sizes.begin(), sizes.end()));
  for (const std::int64_t size : sizes) {
    check.all<float>(size);
    check.all<double>(size);
    check.all<std::int32_t>(size);
    check.all<bf16>(size);
  }
  check.exchange();
  return check.digest();
}

}  // namespace

std::uint64_t check_conformance(Communicator& world, const std::vector<std::int64_t>& sizes, Device* where) {
  const std::unique_ptr<Device> host = make_host_device();
  Device& device = where ? *where : *host;
  std::uint64_t mine = check_group(world, sizes, device);
  const auto halves = world.split([](int rank) { return rank % 2; }, "parity");
  mine = mine * 31 + check_group(*halves, {1, 257}, device);
  if (world.rank() % 2 == 0) {  // the odd ranks split nothing here: later groups must still find each other
    const auto pairs = halves->split([](int rank) { return rank / 2; }, "pairs");
    mine = mine * 31 + check_group(*pairs, {33}, device);
  }
  const auto reversed = world.split([&](int rank) { return rank < 2 ? 0 : 1; }, "first two");
  mine = mine * 31 + check_group(*reversed, {12}, device);
  std::uint64_t all = 0;  // hex text: JSON's integers are signed
  for (const Json& digest : world.exchange(fmt::format("{:016x}", mine)))
    all = all * 1099511628211u + std::stoull(digest.string(), nullptr, 16);
  return all;
}

}  // namespace quadrille::testing
