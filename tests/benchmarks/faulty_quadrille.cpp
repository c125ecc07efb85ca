// SPDX-License-Identifier: Apache-2.0
// The real program with one fault in one rank, for end_to_end.py: QUADRILLE_PLANTED="KIND RANK NUMBER [ELEMENTS]" does
// KIND on RANK at its NUMBER-th sum (from 1) of at least, with ELEMENTS given exactly, that many numbers. Kinds: throw,
// no_memory, sleep (for ever), skip (leaves the message out), nan (in the first number it gives), killed,
// drift (the first number of this rank's sum comes out a little larger).
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "benchmarks/program.h"
#include "core/error.h"
#include "parallelism/forwarding_communicator.h"

namespace quadrille {

namespace {

struct Plan {
  std::string kind;
  int rank = -1;
  std::int64_t number = 0, elements = 0, seen = 0;  // seen: by all groups of the rank
};

Plan plan_from_environment() {
  Plan plan;
  if (const char* text = std::getenv("QUADRILLE_PLANTED"))
    std::istringstream(text) >> plan.kind >> plan.rank >> plan.number >> plan.elements;
  return plan;
}

class Saboteur : public ForwardingCommunicator {
 public:
  Saboteur(std::unique_ptr<Communicator> right, std::shared_ptr<Plan> plan)
      : ForwardingCommunicator(std::move(right)), plan_(std::move(plan)) {}

  Ticket all_reduce(const Tensor& inout, Reduce how, Stream& s) override {
    const bool counts = plan_->elements == 0 || plan_->elements == inout.count();
    if (counts && ++plan_->seen == plan_->number) {
      if (plan_->kind == "skip") return Ticket();
      if (plan_->kind == "drift") return drift(inout, how, s);
      commit(inout);
    }
    return right_->all_reduce(inout, how, s);
  }
  std::unique_ptr<Communicator> split(const std::function<int(int)>& colour_of, std::string name) override {
    return std::make_unique<Saboteur>(right_->split(colour_of, std::move(name)), plan_);
  }

 private:
  Ticket drift(const Tensor& inout, Reduce how, Stream& s) {
    right_->all_reduce(inout, how, s).wait(s);
    if (inout.dtype() == DType::f64)
      inout.host<double>()[0] *= 1.001;
    else
      inout.host<float>()[0] *= 1.001F;
    return Ticket();
  }
  void commit(const Tensor& numbers) const {
    if (plan_->kind == "throw") fail("the last wheel came off");
    if (plan_->kind == "no_memory") throw std::bad_alloc();
    if (plan_->kind == "sleep") std::this_thread::sleep_for(std::chrono::hours(1));
    if (plan_->kind == "killed") std::raise(SIGKILL);
    if (plan_->kind != "nan") return;
    if (numbers.dtype() == DType::f64)
      numbers.host<double>()[0] = std::numeric_limits<double>::quiet_NaN();
    else
      numbers.host<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  }
  std::shared_ptr<Plan> plan_;
};

}  // namespace

}  // namespace quadrille

int main(int count, char** words) {
  using namespace quadrille;
  return run_program(count, words, [](std::unique_ptr<Communicator> world) -> std::unique_ptr<Communicator> {
    Plan plan = plan_from_environment();
    if (plan.rank != world->rank()) return world;
    return std::make_unique<Saboteur>(std::move(world), std::make_shared<Plan>(plan));
  });
}
