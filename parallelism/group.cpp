// SPDX-License-Identifier: Apache-2.0
#include "parallelism/group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"

namespace quadrille {

namespace {

// Adds a message to the ledger: the volume at once, the seconds when it is complete, so that a dropped ticket still
// counts.
class Bill {
 public:
  Bill(Ledger* ledger, const Header& header, int rank, int size, const std::string& group)
      : ledger_(ledger), group_(group) {
    if (!ledger_) return;
    kind_ = kind_of(header);
    begin_ = ledger_->now();
    ledger_->message(kind_, group_, ring_traffic(header, rank, size));
  }
  double now() const { return ledger_ ? ledger_->now() : 0; }
  // `waited_since`: when the rank began to stand still for it; as a rule from the beginning.
  void complete(bool takes_time, std::optional<double> waited_since = {}) {
    if (!ledger_) return;
    const double end = takes_time ? ledger_->now() : begin_;
    if (takes_time) ledger_->message(kind_, group_, {0, 0, 0, end - begin_, end - waited_since.value_or(begin_)});
    if (ledger_->keeps_entries()) ledger_->entry({Entry::Kind::message, kind_, group_, {}, begin_, end});
    ledger_ = nullptr;
  }

 private:
  Ledger* ledger_;
  std::string group_, kind_;
  double begin_ = 0;
};

bool overlap(const Tensor& a, const Tensor& b) {
  const auto* first = static_cast<const std::byte*>(a.data());
  const auto* second = static_cast<const std::byte*>(b.data());
  return first && second && first < second + b.bytes() && second < first + a.bytes();
}

}  // namespace

std::function<int(int rank)> colours_of(std::vector<int> members, int colour) {
  return [members = std::move(members), colour](int rank) {
    return std::find(members.begin(), members.end(), rank) != members.end() ? colour : ~colour;
  };
}

class Group::Awaited : public Ticket::Pending {
 public:
  Awaited(std::shared_ptr<Ticket::Pending> inner, Bill bill) : inner_(std::move(inner)), bill_(std::move(bill)) {}
  void wait(Stream& consumer) override {
    const double begin = bill_.now();
    inner_->wait(consumer);
    bill_.complete(true, begin);
  }

 private:
  std::shared_ptr<Ticket::Pending> inner_;
  Bill bill_;
};

Header Group::next(Operation operation, const Tensor* counted, Reduce reduce, int root) {
  Header header{operation, DType::f32, reduce, root, 0, ++sequence_};
  if (counted) header.dtype = counted->dtype(), header.count = counted->count();
  return header;
}

void Group::expect_tensor(Operation operation, const Tensor& tensor) const {
  const std::string kind = kind_of({operation});
  require(static_cast<bool>(tensor), "{} in group {} was given no tensor", kind, name_);
  require(moves_ != Moves::host_numbers || tensor.device().on_host(),
          "{} in group {}: this world moves numbers that lie on the host, these lie on device {}", kind, name_,
          tensor.device().name());
}

void Group::expect_whole(Operation operation, const Tensor& whole, const Tensor& part) const {
  expect_tensor(operation, whole);
  expect_tensor(operation, part);
  require(whole.dtype() == part.dtype() && whole.count() == part.count() * size_,
          "{} in group {}: {} {} is not {} ranks times {} {}", kind_of({operation}), name_, whole.count(),
          name_of(whole.dtype()), size_, part.count(), name_of(part.dtype()));
  const auto* own = static_cast<const std::byte*>(whole.data()) + (whole.data() ? rank_ * part.bytes() : 0);
  require(!overlap(whole, part) || part.data() == own,
          "{} in group {}: the part shares numbers with the whole, but is not rank {}'s part of it",
          kind_of({operation}), name_, rank_);
}

void Group::expect_peer(Operation operation, int peer) const {
  require(peer >= 0 && peer < size_, "{} in group {} names rank {}, but its ranks are 0 to {}", kind_of({operation}),
          name_, peer, size_ - 1);
}

Ticket Group::run(const Header& header, const Tensor& out, const Tensor& in, Stream& producer) {
  const bool alone = size_ == 1;
  Bill bill(alone ? nullptr : ledger_, header, rank_, size_, name_);
  Ticket ticket;
  if (!alone)
    ticket = begin(header, out, in, producer);
  else if (out.data() != in.data())
    producer.copy(out, in);
  bill.complete(takes_time());
  return ticket;
}

Ticket Group::begin(const Header& header, const Tensor& out, const Tensor& in, Stream& producer) {
  producer.synchronize();
  collective(header, out, in);
  return {};
}

void Group::begin_send(const Header& header, const Tensor& tensor, int to, Stream& producer) {
  producer.synchronize();
  post(header, tensor, to);
}

std::shared_ptr<Ticket::Pending> Group::begin_receive(const Header& header, const Tensor& tensor, int from,
                                                      Stream& producer) {
  producer.synchronize();
  return await(header, tensor, from);
}

Ticket Group::all_reduce(const Tensor& inout, Reduce reduce, Stream& producer) {
  expect_tensor(Operation::all_reduce, inout);
  require(inout.dtype() != DType::i32, "all_reduce in group {} was given i32: f32, f64 or bf16 is wanted", name_);
  return run(next(Operation::all_reduce, &inout, reduce), inout, inout, producer);
}

Ticket Group::all_gather(const Tensor& full, const Tensor& mine, Stream& producer) {
  expect_whole(Operation::all_gather, full, mine);
  return run(next(Operation::all_gather, &mine), full, mine, producer);
}

Ticket Group::reduce_scatter(const Tensor& mine, const Tensor& full, Reduce reduce, Stream& producer) {
  expect_whole(Operation::reduce_scatter, full, mine);
  require(mine.dtype() != DType::i32, "reduce_scatter in group {} was given i32: f32, f64 or bf16 is wanted", name_);
  return run(next(Operation::reduce_scatter, &mine, reduce), mine, full, producer);
}

Ticket Group::all_to_all(const Tensor& out, const Tensor& in, Stream& producer) {
  expect_tensor(Operation::all_to_all, out);
  expect_tensor(Operation::all_to_all, in);
  require(out.dtype() == in.dtype() && out.count() == in.count() && in.count() % size_ == 0,
          "all_to_all in group {} of {}: {} {} into {} {}; equal counts that divide by the ranks are wanted", name_,
          size_, in.count(), name_of(in.dtype()), out.count(), name_of(out.dtype()));
  require(size_ == 1 || !overlap(out, in), "all_to_all in group {}: the two tensors must not share numbers", name_);
  return run(next(Operation::all_to_all, &in), out, in, producer);
}

Ticket Group::broadcast(const Tensor& inout, int root, Stream& producer) {
  expect_tensor(Operation::broadcast, inout);
  expect_peer(Operation::broadcast, root);
  return run(next(Operation::broadcast, &inout, Reduce::sum, root), inout, inout, producer);
}

Ticket Group::send(const Tensor& tensor, int to, Stream& producer) {
  expect_tensor(Operation::send, tensor);
  expect_peer(Operation::send, to);
  require(to != rank_, "send in group {}: rank {} names itself", name_, rank_);
  sent_.resize(static_cast<std::size_t>(size_));
  const Header header{
      Operation::send, tensor.dtype(), Reduce::sum, -1, tensor.count(), ++sent_[static_cast<std::size_t>(to)]};
  Bill bill(ledger_, header, rank_, size_, name_);
  begin_send(header, tensor, to, producer);
  bill.complete(takes_time());
  return {};
}

Ticket Group::receive(const Tensor& tensor, int from, Stream& producer) {
  expect_tensor(Operation::receive, tensor);
  expect_peer(Operation::receive, from);
  require(from != rank_, "receive in group {}: rank {} names itself", name_, rank_);
  received_.resize(static_cast<std::size_t>(size_));
  const Header header{
      Operation::receive, tensor.dtype(), Reduce::sum, -1, tensor.count(), ++received_[static_cast<std::size_t>(from)]};
  Bill bill(ledger_, header, rank_, size_, name_);
  auto pending = begin_receive(header, tensor, from, producer);
  if (pending && takes_time()) return Ticket(std::make_shared<Awaited>(std::move(pending), std::move(bill)));
  bill.complete(takes_time());
  return Ticket(std::move(pending));
}

void Group::barrier() {
  const Header header = next(Operation::barrier, nullptr);
  if (size_ > 1) collective(header, {}, {});
}

std::vector<Json> Group::exchange(const Json& mine) {
  const Header header = next(Operation::exchange, nullptr);
  if (size_ == 1) return {mine};
  return exchange_values(header, mine);
}

std::unique_ptr<Communicator> Group::split(const std::function<int(int rank)>& colour_of, std::string name) {
  const int colour = colour_of(rank_);
  std::vector<int> members;
  int place = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) place = static_cast<int>(members.size());
    if (rank == rank_ || colour_of(rank) == colour) members.push_back(rank);
  }
  auto group = subgroup(std::move(members), place, splits_++, colour, std::move(name));
  group->ledger_ = ledger_;
  group->sleeps_ = sleeps_;
  return group;
}

}  // namespace quadrille
