// SPDX-License-Identifier: Apache-2.0
#include "training/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace quadrille {

namespace {

struct Beam {
  std::vector<std::int32_t> ids;  // with the begin mark, and the end mark once it is finished
  double log_p = 0, score = 0;
};

template <class Key>
void keep_best(std::vector<Beam>& beams, std::size_t width, Key key) {
  std::stable_sort(beams.begin(), beams.end(), [&](const Beam& a, const Beam& b) { return key(a) > key(b); });
  if (beams.size() > width) beams.resize(width);
}

// The best continuations of all living beams, 2 x width of them: even if each beam's best word is the end, enough live.
std::vector<Beam> grow(const std::vector<Beam>& living, const NextWords& next, std::size_t candidates) {
  std::vector<std::vector<std::int32_t>> prefixes;
  for (const Beam& b : living) prefixes.push_back(b.ids);
  const std::vector<std::vector<double>> log_p = next(prefixes);
  require(log_p.size() == living.size(), "beam search asked about {} prefixes and was told of {}", living.size(),
          log_p.size());
  struct Candidate {
    double log_p;
    std::size_t beam, word;
  };
  std::vector<Candidate> found;
  for (std::size_t b = 0; b < living.size(); ++b) {
    require(log_p[b].size() == log_p[0].size() && !log_p[b].empty(), "beam search was told of {} words, then of {}",
            log_p[0].size(), log_p[b].size());
    for (std::size_t w = 0; w < log_p[b].size(); ++w) {
      require(!std::isnan(log_p[b][w]), "beam search was told that word {} has a log p that is not a number", w);
      found.push_back({living[b].log_p + log_p[b][w], b, w});
    }
  }
  const std::size_t kept = std::min(candidates, found.size());
  const auto better = [](const Candidate& x, const Candidate& y) {
    return x.log_p != y.log_p ? x.log_p > y.log_p : std::pair(x.beam, x.word) < std::pair(y.beam, y.word);
  };
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(), better);
  std::vector<Beam> grown;
  for (std::size_t k = 0; k < kept; ++k) {
    grown.push_back({living[found[k].beam].ids, found[k].log_p, 0});
    grown.back().ids.push_back(static_cast<std::int32_t>(found[k].word));
  }
  return grown;
}

}  // namespace

double BeamSearch::penalty(std::int64_t length) const {
  return std::pow((5.0 + static_cast<double>(length)) / 6.0, alpha);
}

Hypothesis beam_search(const BeamSearch& how, const NextWords& next) {
  require(how.width >= 1 && how.longest >= 1 && how.alpha >= 0,
          "beam search has width {}, longest {} and alpha {}: at least 1, 1 and 0 are wanted", how.width, how.longest,
          how.alpha);
  const auto width = static_cast<std::size_t>(how.width);
  std::vector<Beam> living = {{{how.begin}, 0, 0}}, finished;
  const auto score = [](const Beam& b) { return b.score; };
  for (std::int64_t length = 1; length <= how.longest && !living.empty(); ++length) {
    std::vector<Beam> grown = grow(living, next, 2 * width);
    living.clear();
    for (Beam& b : grown) {
      b.score = b.log_p / how.penalty(length);
      (b.ids.back() == how.end ? finished : living).push_back(std::move(b));
    }
    keep_best(living, width, [](const Beam& b) { return b.log_p; });
    keep_best(finished, width, score);
    if (living.empty() || finished.size() < width) continue;
    // log p only falls, and the longest is divided by most.
    if (finished.back().score >= living.front().log_p / how.penalty(how.longest)) break;
  }
  const bool ended = !finished.empty();
  if (!ended) keep_best(living, width, score);
  const Beam& best = (ended ? finished : living).front();
  Hypothesis made{{best.ids.begin() + 1, best.ids.end()}, best.score, ended};
  if (ended) made.words.pop_back();
  return made;
}

}  // namespace quadrille
