// SPDX-License-Identifier: Apache-2.0
// Pays what parameters owe: the sums of their gradients over the mesh axes on which they were lent. A bucket is a block's
// parameters laid end to end, ordered by what they owe, so that each debt set is one message. Used by the trainer, once a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "parallelism/mesh.h"

namespace quadrille {

// A run of a bucket that is treated alike.
struct Segment {
  std::int64_t first = 0, count = 0;   // elements
  MeshAxes owed = 0;                   // where its gradient is a partial sum until paid
  bool counted = false;                // this rank is the first of its holders: its squares enter the norm here
  bool decays = false;                 // weight decay applies
};

struct Bucket {
  std::string name;
  Tensor values, gradients;            // flat, of the working type
  std::vector<Segment> segments;       // cover the bucket in order, equal `owed` side by side
};

class Exchange {
 public:
  Exchange(const Mesh& mesh, Stream& stream) : mesh_(mesh), stream_(stream) {}
  // Begins the sums of a bucket whose gradients are complete on this rank. Buckets in the same order on all ranks.
  void start(const Bucket&);
  // Returns when all that was started is paid: gradients are then those of the serial run.
  void finish();

 private:
  const Mesh& mesh_;
  Stream& stream_;
  std::vector<Ticket> under_way_;
};

}  // namespace quadrille
