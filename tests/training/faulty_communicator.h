// SPDX-License-Identifier: Apache-2.0
// A world that is wrong on purpose: one kind of message over one group of mesh axes is left out, or its result spoiled.
// The law tests must notice every such fault.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallelism/forwarding_communicator.h"

namespace quadrille {

struct MessageFault {
  std::string kind;   // "all_reduce", "all_gather", "reduce_scatter"
  std::string group;  // "x", "data", "data+x": name of the group
  enum class Effect : std::uint8_t { left_out, paid_twice, wrong_place, stale } effect = Effect::left_out;
  int smallest = 2, largest = 1 << 30;  // only messages of this many elements
};

class FaultyCommunicator : public ForwardingCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> right, MessageFault fault)
      : ForwardingCommunicator(std::move(right)), fault_(std::move(fault)) {}

  Ticket all_reduce(const Tensor& inout, Reduce how, Stream& s) override {
    if (!hit("all_reduce", inout.count())) return right_->all_reduce(inout, how, s);
    if (fault_.effect == MessageFault::Effect::left_out) return Ticket();
    right_->all_reduce(inout, how, s).wait(s);
    return right_->all_reduce(inout, how, s);
  }
  Ticket all_gather(const Tensor& full, const Tensor& mine, Stream& s) override {
    if (!hit("all_gather", full.count())) return right_->all_gather(full, mine, s);
    if (fault_.effect == MessageFault::Effect::left_out) {
      s.zero(full);
      return Ticket();
    }
    right_->all_gather(full, mine, s).wait(s);
    if (fault_.effect == MessageFault::Effect::stale) {  // what the first gather of this size brought
      const std::span<double> numbers = full.host<double>();
      const auto [at, is_first] = gathered_.try_emplace(full.count(), numbers.begin(), numbers.end());
      if (!is_first) std::copy(at->second.begin(), at->second.end(), numbers.begin());
      return Ticket();
    }
    const std::int64_t n = mine.count();
    const Tensor first = s.device().empty({n}, full.dtype());  // the first two parts change places
    s.copy(first, full.rows(0, n));
    s.copy(full.rows(0, n), full.rows(n, n));
    s.copy(full.rows(n, n), first);
    return Ticket();
  }
  Ticket reduce_scatter(const Tensor& mine, const Tensor& full, Reduce how, Stream& s) override {
    if (!hit("reduce_scatter", full.count())) return right_->reduce_scatter(mine, full, how, s);
    s.copy(mine, full.rows(mine.count() * rank(), mine.count()));  // own part, not summed
    return Ticket();
  }
  std::unique_ptr<Communicator> split(const std::function<int(int)>& colour_of, std::string name) override {
    return std::make_unique<FaultyCommunicator>(right_->split(colour_of, std::move(name)), fault_);
  }

 private:
  bool hit(const char* kind, std::int64_t elements) const {
    return fault_.kind == kind && fault_.group == name() && elements >= fault_.smallest && elements <= fault_.largest;
  }
  MessageFault fault_;
  std::map<std::int64_t, std::vector<double>> gathered_;  // stale: by size
};

}  // namespace quadrille
