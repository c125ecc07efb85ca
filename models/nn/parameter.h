// SPDX-License-Identifier: Apache-2.0
// A named weight: its logical dims, where it rests, its local numbers. Initial values are a function of (seed, name,
// global index), so every layout starts from the serial run's numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/device.h"
#include "core/random.h"
#include "core/tensor.h"
#include "parallelism/plan.h"

namespace quadrille {

struct Parameter {
  std::string name;                // "layers.0.up.weight"
  Dims dims;                       // as placed: an axis that lost its mesh axis to an earlier dim is `none`
  States states;                   // same or split only
  Shape shape;                     // of the local part
  std::int64_t number = 0;         // in order of creation, the same on every rank
  double mean = 0, deviation = 0;  // of the initial normal values; deviation 0: all equal to the mean
  std::string bucket;              // parameters of one bucket lie end to end
  bool decays = false;         // weight decay is meant for it: matrices and word tables, not biases, gains, positions
  MeshAxes owed = 0;           // where its gradient is a partial sum: from the rehearsal
  int home = -1;               // index of its bucket on this rank; -1: other pipeline stages hold it
  std::int64_t at = 0;         // where it begins in its bucket
  Tensor value, gradient;      // views into the whole bucket while that is fetched, or open
  std::int64_t count() const;  // elements of the whole, over all ranks
};

// Moving averages of a batch norm: numbers that a forward pass of training changes and evaluation reads, no parameters.
// Where groups of ranks have statistics of their own, so are their averages; who reads them takes the mean.
struct Statistics {
  std::string name;
  Dims dims;  // the channels
  States states;
  Tensor value;  // f64 [own channels, 3] = mean, variance, 1
};

// All parameters of a rank's model, in order of creation. References stay valid.
class Parameters {
 public:
  explicit Parameters(const Plan& plan) : plan_(plan) {}
  Parameter& make(std::string name, std::string bucket, Dims dims, double mean, double deviation, bool decays = false);
  std::deque<Parameter>& all() { return all_; }
  const std::deque<Parameter>& all() const { return all_; }
  Parameter& named(const std::string& name);
  const Plan& plan() const { return plan_; }
  std::int64_t count() const;  // elements of the whole model
  Statistics& make_statistics(std::string name, Dim channels);
  void open_statistics(Device&, Stream&);  // makes room for them and sets them to mean 0, variance 1
  std::int64_t statistics_bytes() const;

 private:
  const Plan& plan_;
  std::deque<Parameter> all_;
  std::deque<Statistics> statistics_;
  std::unordered_set<std::string> names_;
};

// Calls visit(local index, global index) for every element this rank holds, in local order.
void for_each_element(const Parameter&, const Plan&,
                      const std::function<void(std::int64_t local, std::int64_t global)>& visit);

void initialise(const Parameter&, const Plan&, std::uint64_t seed);
// Adds noise of this deviation, addressed like initial values under another name.
void perturb(const Parameter&, const Plan&, double deviation, std::uint64_t seed);
void shift(const Parameter&, const Plan&, std::int64_t global_index, double change);  // one element, where it is held

}  // namespace quadrille
