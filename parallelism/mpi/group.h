// SPDX-License-Identifier: Apache-2.0
// The collectives over MPI's point-to-point messages. All are made of rounds in which each member sends one piece to
// each other; reductions add the received pieces in rank order, exactly as the thread world does. Used by world.cpp.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallelism/group.h"
#include "parallelism/mpi/transport.h"

namespace quadrille::mpi {

class MpiGroup : public Group {
 public:
  MpiGroup(std::shared_ptr<Transport>, std::uint64_t context, std::vector<int> world_ranks, int rank, std::string name);
  ~MpiGroup() override;
  void poison(const std::string& message) noexcept override { link_->transport->claim(message); }
  bool failed() noexcept override { return link_->transport->failed(); }
  bool help_sends() noexcept override { return link_->transport->help_sends(); }

 private:
  // What receives still under way need, should they outlive the group.
  struct Link {
    std::shared_ptr<Transport> transport;
    std::uint64_t context = 0;
    std::vector<int> world_ranks;
    int tag = 0;
    std::string name;
    int rank = 0;
    bool sleeps = false;
  };
  struct Expected;
  using Queue = std::deque<std::shared_ptr<Expected>>;
  class Receipt;
  class Receive;
  class Round;
  struct Piece {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  using Pieces = std::vector<Piece>;

  void collective(const Header&, const Tensor& out, const Tensor& in) override;
  void post(const Header&, const Tensor&, int to) override;
  std::shared_ptr<Ticket::Pending> await(const Header&, const Tensor&, int from) override;
  std::vector<Json> exchange_values(const Header&, const Json& mine) override;
  std::unique_ptr<Group> subgroup(std::vector<int> members, int place, std::uint64_t ordinal, int colour,
                                  std::string name) override;

  void round(const Header&, const Pieces& out, const Pieces& in);
  Pieces same(const void* data, std::int64_t bytes) const;  // for every other rank
  Pieces parts(void* data, std::int64_t bytes) const;       // part r for rank r
  void all_reduce_small(const Header&, std::byte* inout);
  void all_reduce_large(const Header&, std::byte* inout);
  // `range` says which elements of `source` belong to a rank; this rank's combined ones go to `out`.
  void combine(const Header&, const std::byte* source, const std::function<Range(int)>& range, std::byte* out);

  std::shared_ptr<Link> link_;
  std::vector<Departure> departures_;
  std::vector<Arrival> arrivals_;
  std::vector<std::byte> staging_;
  std::map<int, std::shared_ptr<Queue>> queues_;
};

}  // namespace quadrille::mpi
