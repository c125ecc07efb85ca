// SPDX-License-Identifier: Apache-2.0
// A communicator that hands everything on to another one: what decorators derive from (links.cpp; in the tests those
// that plant a fault).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallelism/communicator.h"

namespace quadrille {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> right) : right_(std::move(right)) {}
  int rank() const override { return right_->rank(); }
  int size() const override { return right_->size(); }
  const std::string& name() const override { return right_->name(); }
  Ticket all_reduce(const Tensor& inout, Reduce how, Stream& s) override { return right_->all_reduce(inout, how, s); }
  Ticket all_gather(const Tensor& full, const Tensor& mine, Stream& s) override {
    return right_->all_gather(full, mine, s);
  }
  Ticket reduce_scatter(const Tensor& mine, const Tensor& full, Reduce how, Stream& s) override {
    return right_->reduce_scatter(mine, full, how, s);
  }
  Ticket all_to_all(const Tensor& out, const Tensor& in, Stream& s) override { return right_->all_to_all(out, in, s); }
  Ticket broadcast(const Tensor& inout, int root, Stream& s) override { return right_->broadcast(inout, root, s); }
  Ticket send(const Tensor& t, int to, Stream& s) override { return right_->send(t, to, s); }
  Ticket receive(const Tensor& t, int from, Stream& s) override { return right_->receive(t, from, s); }
  void barrier() override { right_->barrier(); }
  std::vector<Json> exchange(const Json& mine) override { return right_->exchange(mine); }
  void poison(const std::string& message) noexcept override { right_->poison(message); }
  bool failed() noexcept override { return right_->failed(); }
  void report_to(Ledger* ledger) override { right_->report_to(ledger); }
  void sleep_in_waits() override { right_->sleep_in_waits(); }
  bool help_sends() noexcept override { return right_->help_sends(); }
  bool on_streams() const override { return right_->on_streams(); }
  void travel_in_bulk() override { right_->travel_in_bulk(); }
  void prepare_passing() override { right_->prepare_passing(); }

 protected:
  std::unique_ptr<Communicator> right_;
};

}  // namespace quadrille
