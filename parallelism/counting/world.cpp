// SPDX-License-Identifier: Apache-2.0
// One rank of an imaginary world of any size. No number moves and nothing is waited for; traffic is billed by the code
// all worlds share. It lets the trainer itself say what a plan costs, for any number of ranks, on one core.
#include <memory>
#include <utility>

#include "core/error.h"
#include "parallelism/group.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

class CountingGroup : public Group {
 public:
  CountingGroup(int rank, int size, std::string name) : Group(rank, size, std::move(name), Moves::nothing) {}
  void poison(const std::string&) noexcept override {}  // nobody waits
  bool failed() noexcept override { return false; }

 private:
  void collective(const Header&, const Tensor&, const Tensor&) override {}
  void post(const Header&, const Tensor&, int) override {}
  std::shared_ptr<Ticket::Pending> await(const Header&, const Tensor&, int) override { return nullptr; }
  // The others are taken to say what this rank says.
  std::vector<Json> exchange_values(const Header&, const Json& mine) override {
    return std::vector<Json>(static_cast<std::size_t>(size()), mine);
  }
  std::unique_ptr<Group> subgroup(std::vector<int> members, int place, std::uint64_t, int, std::string name) override {
    return std::make_unique<CountingGroup>(place, static_cast<int>(members.size()), std::move(name));
  }
};

}  // namespace

void run_counting(const WorldOptions& options, const RankBody& body) {
  require(options.ranks >= 1, "a world of {} ranks was asked for: at least 1 is wanted", options.ranks);
  require(options.counting_rank >= 0 && options.counting_rank < options.ranks,
          "counting rank {} was asked for, but the ranks are 0 to {}", options.counting_rank, options.ranks - 1);
  body(std::make_unique<CountingGroup>(options.counting_rank, options.ranks, "world"));
}

}  // namespace quadrille
