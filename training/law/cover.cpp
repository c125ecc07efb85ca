// SPDX-License-Identifier: Apache-2.0
// See cover.h.
#include "training/law/cover.h"

#include <cstddef>

namespace quadrille {

namespace {

class Cover {
 public:
  Cover(const std::vector<int>& values, const Lawful& lawful) : values_(values), lawful_(lawful) {
    for (const int n : values_) {
      first_.push_back(total_);
      total_ += static_cast<std::size_t>(n);
    }
    met_.assign(total_ * total_, false);
  }

  std::vector<Choice> go() {
    for (std::size_t i = 0; i < values_.size(); ++i)
      for (std::size_t j = i + 1; j < values_.size(); ++j)
        for (int a = 0; a < values_[i]; ++a)
          for (int b = 0; b < values_[j]; ++b)
            if (!met(i, a, j, b)) start_from(i, a, j, b);
    return std::move(chosen_);
  }

 private:
  std::vector<bool>::reference met(std::size_t i, int a, std::size_t j, int b) {
    return met_[(first_[i] + static_cast<std::size_t>(a)) * total_ + first_[j] + static_cast<std::size_t>(b)];
  }

  bool can_be_completed(Choice& choice, std::size_t from = 0) const {
    if (!lawful_(choice)) return false;
    while (from < choice.size() && choice[from] != kOpen) ++from;
    if (from == choice.size()) return true;
    bool can = false;
    for (int v = 0; v < values_[from] && !can; ++v) {
      choice[from] = v;
      can = can_be_completed(choice, from + 1);
    }
    choice[from] = kOpen;
    return can;
  }

  int missing_pairs(const Choice& choice, std::size_t k) {
    int missing = 0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      if (i == k || choice[i] == kOpen) continue;
      missing += i < k ? !met(i, choice[i], k, choice[k]) : !met(k, choice[k], i, choice[i]);
    }
    return missing;
  }

  void start_from(std::size_t i, int a, std::size_t j, int b) {
    Choice choice(values_.size(), kOpen);
    choice[i] = a, choice[j] = b;
    if (!can_be_completed(choice)) return;  // no lawful combination has this pair
    for (std::size_t k = 0; k < choice.size(); ++k)
      if (choice[k] == kOpen) choice[k] = best_value(choice, k);
    for (std::size_t p = 0; p < choice.size(); ++p)
      for (std::size_t q = p + 1; q < choice.size(); ++q) met(p, choice[p], q, choice[q]) = true;
    chosen_.push_back(std::move(choice));
  }

  // Among equals the one whose turn it is, so that also values that bring nothing new change from one to the next.
  int best_value(Choice& choice, std::size_t k) {
    int best = kOpen, most = -1;
    for (int n = 0; n < values_[k]; ++n) {
      const int v =
          static_cast<int>((chosen_.size() + static_cast<std::size_t>(n)) % static_cast<std::size_t>(values_[k]));
      choice[k] = v;
      const int missing = missing_pairs(choice, k);
      if (missing > most && can_be_completed(choice)) best = v, most = missing;
    }
    choice[k] = kOpen;
    return best;
  }

  const std::vector<int>& values_;
  const Lawful& lawful_;
  std::vector<std::size_t> first_;
  std::size_t total_ = 0;
  std::vector<bool> met_;  // by value of the earlier and of the later factor
  std::vector<Choice> chosen_;
};

void extend(Choice& choice, std::size_t k, const std::vector<int>& values, const Lawful& lawful,
            std::vector<Choice>& found) {
  if (!lawful(choice)) return;
  if (k == values.size()) {
    found.push_back(choice);
    return;
  }
  for (int v = 0; v < values[k]; ++v) {
    choice[k] = v;
    extend(choice, k + 1, values, lawful, found);
  }
  choice[k] = kOpen;
}

}  // namespace

std::vector<Choice> cover_pairs(const std::vector<int>& values, const Lawful& lawful) {
  return Cover(values, lawful).go();
}

std::vector<Choice> all_choices(const std::vector<int>& values, const Lawful& lawful) {
  std::vector<Choice> found;
  Choice choice(values.size(), kOpen);
  extend(choice, 0, values, lawful, found);
  return found;
}

}  // namespace quadrille
