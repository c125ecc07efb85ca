// SPDX-License-Identifier: Apache-2.0
// The half of a communicator that all worlds share: arguments are checked, headers numbered and traffic billed here, so
// that a counting run and a real one cannot differ. A world adds only how bytes move. Used by threads/, mpi/,
// counting/, nccl/ and staged.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallelism/communicator.h"
#include "parallelism/message.h"

namespace quadrille {

// What a world's messages are to the thread that calls.
enum class Moves : std::uint8_t {
  host_numbers,  // they move numbers that lie on the host, and the caller waits
  any_numbers,   // ... numbers that lie anywhere, and the caller waits
  on_streams,    // they are begun, and travel in the order of streams; the world itself books their seconds
  nothing        // they are counted
};

// For a group that stands before another one, to split that one alike: the colour of this rank's subgroup where
// `members` are, another one elsewhere.
std::function<int(int rank)> colours_of(std::vector<int> members, int colour);

class Group : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  const std::string& name() const final { return name_; }

  Ticket all_reduce(const Tensor& inout, Reduce, Stream& producer) final;
  Ticket all_gather(const Tensor& full, const Tensor& mine, Stream& producer) final;
  Ticket reduce_scatter(const Tensor& mine, const Tensor& full, Reduce, Stream& producer) final;
  Ticket all_to_all(const Tensor& out, const Tensor& in, Stream& producer) final;
  Ticket broadcast(const Tensor& inout, int root, Stream& producer) final;
  Ticket send(const Tensor&, int to, Stream& producer) final;
  Ticket receive(const Tensor&, int from, Stream& producer) final;
  void barrier() final;
  std::vector<Json> exchange(const Json& mine) final;
  std::unique_ptr<Communicator> split(const std::function<int(int rank)>& colour_of, std::string name) final;
  void report_to(Ledger* ledger) final { ledger_ = ledger; }
  void sleep_in_waits() final { sleeps_ = true; }

 protected:
  Group(int rank, int size, std::string name, Moves moves)
      : rank_(rank), size_(size), name_(std::move(name)), moves_(moves) {}

  // Asked only when size() > 1. A collective is complete when `collective` returns; `out` and `in` may be one tensor.
  virtual void collective(const Header&, const Tensor& out, const Tensor& in) = 0;
  // How the three are begun: after all that the producer's stream holds, which is waited for here. A world on streams
  // overrides these instead, `collective` is then asked for barriers only.
  virtual Ticket begin(const Header&, const Tensor& out, const Tensor& in, Stream& producer);
  virtual void begin_send(const Header&, const Tensor&, int to, Stream& producer);
  virtual std::shared_ptr<Ticket::Pending> begin_receive(const Header&, const Tensor&, int from, Stream& producer);
  // Takes a copy if need be: the sender may go on at once.
  virtual void post(const Header&, const Tensor&, int to) = 0;
  // Called when the receive is named, so that matching is in that order; its wait() returns when the numbers are there.
  virtual std::shared_ptr<Ticket::Pending> await(const Header&, const Tensor&, int from) = 0;
  virtual std::vector<Json> exchange_values(const Header&, const Json& mine) = 0;
  // `members`: ranks of this group, ascending; `place`: this rank's index in it; `ordinal`: how many splits came
  // before.
  virtual std::unique_ptr<Group> subgroup(std::vector<int> members, int place, std::uint64_t ordinal, int colour,
                                          std::string name) = 0;

  bool sleeps() const { return sleeps_; }
  Ledger* ledger() const { return ledger_; }

 private:
  class Awaited;
  Header next(Operation, const Tensor* counted, Reduce = Reduce::sum, int root = -1);
  Ticket run(const Header&, const Tensor& out, const Tensor& in, Stream& producer);
  bool takes_time() const { return moves_ == Moves::host_numbers || moves_ == Moves::any_numbers; }
  void expect_tensor(Operation, const Tensor&) const;
  void expect_whole(Operation, const Tensor& whole, const Tensor& part) const;
  void expect_peer(Operation, int peer) const;

  int rank_, size_;
  std::string name_;
  Moves moves_;
  bool sleeps_ = false;
  Ledger* ledger_ = nullptr;
  std::uint64_t sequence_ = 0, splits_ = 0;
  std::vector<std::uint64_t> sent_, received_;  // per peer; empty until the first of them
};

}  // namespace quadrille
