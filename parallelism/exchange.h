// SPDX-License-Identifier: Apache-2.0
// What ranks hold of a model's weights between uses, and the bulk messages that follow: whole weights are gathered
// before use, the sums that gradients owe are paid, new values are made known. A bucket is a block's parameters laid
// end to end; a segment of it is parameters that owe and are cut alike. Cuts of a segment nest: first those of the
// stored weights, then those of gradients, then those of optimizer state; within one of these first the mesh axes where
// the gradient is owed (a reduce-scatter pays and cuts at once), then the others (every rank takes its part, nothing is
// sent). Store and volumes: docs/strategies.md. Used by training/, once per block and micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/tensor.h"
#include "kernels/ops.h"
#include "parallelism/plan.h"

namespace quadrille {

// How a segment is cut over the ranks, outermost cut first.
struct Cuts {
  struct Step {
    MeshAxes over = 0;
    bool sums = false;  // a reduce-scatter, else the own part is taken
  };
  std::vector<Step> steps;
  std::size_t weights = 0, gradients = 0, optimizer = 0;  // how many steps each of the three is cut by
  std::vector<MeshAxes> rest;  // owed beyond all cuts: all-reduced on the part, one after the other
  int parts = 1;               // a segment's count must be a multiple
};
// `split`: the mesh axes on which the parameters themselves are split; there is nothing to cut there.
Cuts cuts_of(const Plan&, MeshAxes owed, MeshAxes split);

struct Segment {
  std::int64_t first = 0, count = 0;  // elements of the whole bucket, zeros at the end up to a multiple of cuts.parts
  MeshAxes owed = 0;                  // where its gradient is a partial sum until paid
  Cuts cuts;
  std::int64_t kept_value = 0, kept_gradient = 0, kept_master = 0;  // where its part begins in what is kept
};

// A run of what this rank's optimizer changes.
struct Owned {
  Tensor values,
      gradients;           // equal counts; parts of what the bucket keeps (values: of the masters where there are any)
  std::int64_t first = 0;  // in the optimizer's own state of this bucket
  bool counted = false;    // this rank is the first of its holders: its squares enter the norm here
  bool decays = false;     // weight decay applies, and so does what adapts the rate to a whole parameter
  std::int64_t parameter = -1;  // its number, where a run may hold no more than one; else -1
};

struct Bucket {
  std::string name;
  DType dtype = DType::f32;            // of values as blocks use them; gradients and masters are of its wide type
  std::int64_t count = 0;              // whole, over the ranks of the store; padding included
  std::vector<Segment> segments;       // cover the bucket in order
  Tensor kept_values, kept_gradients;  // what lies here between uses; the whole where nothing is cut
  Tensor kept_masters;                 // mixed precision: the optimizer's values, this rank's part; else empty
  Tensor values, gradients;            // whole; empty while not fetched or not open
  std::vector<Owned> owned;
  std::int64_t owned_count = 0;           // elements of all runs
  std::shared_ptr<Communicator> holders;  // stages that hold it, when there are several; else null
  bool cut_weights() const { return kept_values.count() != count; }
  bool cut_gradients() const { return kept_gradients.count() != count; }
};

// The part of a segment that is left after so many of its cuts, in elements of the whole bucket.
Slice part_of(const Mesh&, const Segment&, std::size_t steps);

class Exchange {
 public:
  Exchange(const Plan& plan, const Ops& ops, Stream& stream, Arena& arena)
      : plan_(plan), mesh_(plan.mesh()), ops_(ops), stream_(stream), arena_(arena) {}

  // Weights. Uses are counted: as many releases as fetches; the first gathers, the last drops. A prefetch begins the
  // gathering of a fetch to come and counts as a use of its own.
  void prefetch(Bucket&);
  void fetch(Bucket&);
  void release(Bucket&);
  // The values as the optimizer knows them, whole, of the wide type: for initial values, checks and tests. A collective
  // call of those who hold the bucket. Where nothing is cut or converted these are the kept numbers themselves.
  Tensor whole_values(Bucket&);
  // Takes changed whole values: this rank's part of them becomes what is kept.
  void keep(Bucket&, const Tensor& whole);

  // Gradients of one block and micro-batch: opened (zero where they are cut), written by the backward, closed. Sums
  // listed in store.gradients are paid at every close, the others at the last close of the step.
  void open(Bucket&);
  void close(Bucket&, bool last);
  // Returns when all that was begun is paid. Buckets that several stages hold are paid here, after all others: a
  // stage that waited for another in the middle of its backward would wait for itself.
  void finish();
  // New values of the owned parts become known to all who keep them (rounded first, where masters are kept).
  void publish(Bucket&);
  // The paid gradient, whole: for checks. A collective call of those who hold the bucket.
  Tensor whole_gradient(Bucket&);

 private:
  struct Begun {
    Bucket* bucket = nullptr;
    Tensor whole;
    std::vector<Ticket> tickets;
    bool last = false;
  };
  Communicator& gatherers(MeshAxes over) const {
    return plan_.overlap().all_gather ? mesh_.beside(over) : mesh_.along(over);
  }
  Communicator& payers(MeshAxes over) const {
    return plan_.overlap().reduce_scatter ? mesh_.beside(over) : mesh_.along(over);
  }
  void gather(const Tensor& whole, const Segment&, std::int64_t base, std::size_t from, std::size_t to,
              std::vector<Ticket>&);
  void reduce(const Tensor& whole, const Segment&, std::int64_t base, std::size_t from, std::size_t to,
              std::vector<Ticket>&);
  void pay_rest(const Tensor& part, const std::vector<MeshAxes>& rest, std::size_t next, std::vector<Ticket>&);
  void pay_kept(Bucket&, std::vector<Ticket>&);
  void complete(Begun&);
  Tensor gathered(Bucket&, const Tensor& kept, std::size_t Cuts::*held, std::int64_t Segment::*at,
                  std::size_t Cuts::*cut);
  void due(Bucket&);

  struct Use {
    const Bucket* bucket;
    int count = 0;
    std::vector<Ticket> coming;
  };
  Use& use_of(const Bucket&);
  void begin_gathering(Bucket&, Use&);

  const Plan& plan_;
  const Mesh& mesh_;
  const Ops& ops_;
  Stream& stream_;
  Arena& arena_;
  std::vector<Use> uses_;
  std::vector<Begun> begun_;
  std::vector<Ticket> last_;
  std::vector<Bucket*> held_by_several_;
};

}  // namespace quadrille
