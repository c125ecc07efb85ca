// SPDX-License-Identifier: Apache-2.0
// Text from a random process whose entropy is known, so that a machine without any download has an honest target: no
// model can do better on average than the entropy, and only one that learned the process comes near.
//
// A Markov chain over V ids that looks back `order` (1 or 2) ids. Each context has `choices` likely successors, drawn
// without repetition, with weights exp(2 x normal); with probability `noise` the next id is any of the V instead. That
// keeps every id reachable from everywhere, so the chain has one stationary distribution. Each window is a fresh piece
// of it: its first ids are drawn from the stationary distribution, the rest from the transitions, all by addressed
// randomness. So the set has no end and no two epochs are alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/dataset.h"

namespace quadrille {

class MarkovChain {
 public:
  MarkovChain(std::int64_t vocabulary, int order, std::int64_t choices, double noise, std::uint64_t seed);
  std::int64_t contexts() const { return contexts_; }  // V or V^2; context = previous x V + last
  double probability(std::int64_t context, std::int64_t next) const;
  const std::vector<double>& stationary() const { return stationary_; }  // of contexts
  // Nats of the next id given the `known` last ids (0 to order). entropy(order) is the entropy rate.
  double entropy(int known) const;
  // Fills `ids` with a stationary piece of the chain; the numbers at `key` decide.
  void sample(Key key, std::span<std::int32_t> ids) const;

 private:
  std::int64_t next_context(std::int64_t context, std::int64_t next) const {
    return order_ == 1 ? next : context % vocabulary_ * vocabulary_ + next;
  }
  double entropy_rate() const;
  void find_stationary();
  std::int64_t vocabulary_, contexts_, choices_;
  int order_;
  double noise_;
  std::vector<std::int32_t> successors_;         // [contexts, choices]
  std::vector<double> weights_;                  // [contexts, choices], each row adds up to 1 - noise
  std::vector<double> stationary_, cumulative_;  // of contexts
};

// {"source": "synthetic", "vocabulary": 32, "order": 2, "choices": 4, "noise": 0.1, "process_seed": 1, "train_tokens":
// 1048576,
//  "evaluate_tokens": 65536}
Datasets open_synthetic(const Json& config, std::int64_t tokens);

}  // namespace quadrille
