// SPDX-License-Identifier: Apache-2.0
#include "datasets/synthetic.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/error.h"

namespace quadrille {
namespace {

double plogp(double p) { return p > 0 ? -p * std::log(p) : 0; }

class SyntheticWindows : public Dataset {
 public:
  SyntheticWindows(std::shared_ptr<const MarkovChain> chain, Key key, std::int64_t tokens, std::int64_t size,
                   std::int64_t vocabulary, Json description)
      : chain_(std::move(chain)),
        key_(key),
        tokens_(tokens),
        size_(size),
        vocabulary_(vocabulary),
        description_(std::move(description)) {}
  std::int64_t size() const override { return size_; }
  Fields fields() const override { return text_fields(tokens_); }
  std::int64_t vocabulary() const override { return vocabulary_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override { return size_ * tokens_; }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    require(epoch >= 0 && index >= 0 && index < size_,
            "window {} of epoch {} of the synthetic text: it has windows 0 to {}", index, epoch, size_ - 1);
    const auto ids = row.integers("ids"), labels = row.integers("labels");
    std::vector<std::int32_t> all(ids.size() + 1);
    chain_->sample(key_of(key_, static_cast<std::uint64_t>(epoch * size_ + index)), all);
    std::copy(all.begin(), all.end() - 1, ids.begin());
    std::copy(all.begin() + 1, all.end(), labels.begin());
  }
  void scan() const override {}  // nothing lies anywhere that could be damaged
  Json description() const override { return description_; }

 private:
  std::shared_ptr<const MarkovChain> chain_;
  Key key_;
  std::int64_t tokens_, size_, vocabulary_;
  Json description_;
};

}  // namespace

MarkovChain::MarkovChain(std::int64_t vocabulary, int order, std::int64_t choices, double noise, std::uint64_t seed)
    : vocabulary_(vocabulary),
      contexts_(order == 1 ? vocabulary : vocabulary * vocabulary),
      choices_(choices),
      order_(order),
      noise_(noise) {
  const Key seeded = key_of(seed, "markov chain");
  for (std::int64_t context = 0; context < contexts_; ++context) {
    const Key key = key_of(seeded, static_cast<std::uint64_t>(context));
    const Permutation pick(key, vocabulary_);
    double sum = 0;
    for (std::int64_t i = 0; i < choices_; ++i) {
      successors_.push_back(static_cast<std::int32_t>(pick(i)));
      weights_.push_back(std::exp(2 * normal_at(key, static_cast<std::uint64_t>(i))));
      sum += weights_.back();
    }
    for (auto w = weights_.end() - choices_; w != weights_.end(); ++w) *w *= (1 - noise_) / sum;
  }
  find_stationary();
}

double MarkovChain::probability(std::int64_t context, std::int64_t next) const {
  const auto first = static_cast<std::size_t>(context * choices_);
  double p = noise_ / static_cast<double>(vocabulary_);
  for (std::size_t i = first; i < first + static_cast<std::size_t>(choices_); ++i) {
    if (successors_[i] == next) p += weights_[i];
  }
  return p;
}

// Power iteration. With order 1 the distance to the stationary distribution shrinks by at least (1 - noise) a step,
// with order 2 by (1 - noise^2) every two; in practice far faster.
void MarkovChain::find_stationary() {
  stationary_.assign(static_cast<std::size_t>(contexts_), 1.0 / static_cast<double>(contexts_));
  std::vector<double> after(stationary_.size()), sums(static_cast<std::size_t>(vocabulary_));
  double change = 1;
  for (int step = 0; change > 1e-13; ++step) {
    require(step < 20000, "the synthetic chain mixes too slowly for its entropy to be computed: use more noise than {}",
            noise_);
    std::ranges::fill(after, 0.0);
    std::ranges::fill(sums, 0.0);
    for (std::int64_t c = 0; c < contexts_; ++c) {
      const double p = stationary_[static_cast<std::size_t>(c)];
      sums[static_cast<std::size_t>(c % vocabulary_)] += p;
      for (std::int64_t i = c * choices_; i < (c + 1) * choices_; ++i) {
        after[static_cast<std::size_t>(next_context(c, successors_[static_cast<std::size_t>(i)]))] +=
            p * weights_[static_cast<std::size_t>(i)];
      }
    }
    const double everywhere = noise_ / static_cast<double>(vocabulary_);
    double total = 0;
    for (std::int64_t c = 0; c < contexts_; ++c) {  // the noise: to every id, from all contexts that lead here
      auto& p = after[static_cast<std::size_t>(c)];
      p += everywhere * (order_ == 1 ? 1.0 : sums[static_cast<std::size_t>(c / vocabulary_)]);
      total += p;
    }
    change = 0;
    for (std::size_t c = 0; c < after.size(); ++c) {
      after[c] /= total;
      change += std::abs(after[c] - stationary_[c]);
    }
    stationary_.swap(after);
  }
  double sum = 0;
  for (double p : stationary_) cumulative_.push_back(sum += p);
}

// Context by context, with memory for none of them: the successors apart, all other ids alike.
double MarkovChain::entropy_rate() const {
  const double everywhere = noise_ / static_cast<double>(vocabulary_);
  const double others = static_cast<double>(vocabulary_ - choices_) * plogp(everywhere);
  double nats = 0;
  for (std::int64_t c = 0; c < contexts_; ++c) {
    double of_context = others;
    for (std::int64_t i = c * choices_; i < (c + 1) * choices_; ++i)
      of_context += plogp(weights_[static_cast<std::size_t>(i)] + everywhere);
    nats += stationary_[static_cast<std::size_t>(c)] * of_context;
  }
  return nats;
}

double MarkovChain::entropy(int known) const {
  require(known >= 0 && known <= order_, "entropy given {} ids of a chain of order {}", known, order_);
  if (known == order_) return entropy_rate();
  // H(next | known ids) = H(known ids and next) - H(known ids), from the joint distribution of `known` + 1 ids.
  std::vector<double> joint(1, 0.0), given(1, 0.0);
  const auto keep = static_cast<std::int64_t>(std::llround(std::pow(vocabulary_, known)));
  joint.assign(static_cast<std::size_t>(keep * vocabulary_), 0.0);
  given.assign(static_cast<std::size_t>(keep), 0.0);
  for (std::int64_t c = 0; c < contexts_; ++c) {
    const double p = stationary_[static_cast<std::size_t>(c)];
    const auto last = static_cast<std::size_t>(c % keep);
    given[last] += p;
    const auto row = last * static_cast<std::size_t>(vocabulary_);
    for (std::int64_t v = 0; v < vocabulary_; ++v)
      joint[row + static_cast<std::size_t>(v)] += p * noise_ / static_cast<double>(vocabulary_);
    for (std::int64_t i = c * choices_; i < (c + 1) * choices_; ++i) {
      joint[row + static_cast<std::size_t>(successors_[static_cast<std::size_t>(i)])] +=
          p * weights_[static_cast<std::size_t>(i)];
    }
  }
  double nats = 0;
  for (double p : joint) nats += plogp(p);
  for (double p : given) nats -= plogp(p);
  return nats;
}

void MarkovChain::sample(Key key, std::span<std::int32_t> ids) const {
  const double start = uniform_at(key, 0) * cumulative_.back();
  std::int64_t context = std::ranges::upper_bound(cumulative_, start) - cumulative_.begin();
  context = std::min(context, contexts_ - 1);
  std::size_t done = 0;
  if (order_ == 2 && done < ids.size()) ids[done++] = static_cast<std::int32_t>(context / vocabulary_);
  if (done < ids.size()) ids[done++] = static_cast<std::int32_t>(context % vocabulary_);
  for (; done < ids.size(); ++done) {
    double u = uniform_at(key, done);
    std::int64_t next = -1;
    for (std::int64_t i = context * choices_; i < (context + 1) * choices_ && next < 0; ++i) {
      const double weight = weights_[static_cast<std::size_t>(i)];
      if (u < weight) next = successors_[static_cast<std::size_t>(i)];
      u -= weight;
    }
    if (next < 0) {  // what is left of u is uniform in [0, noise)
      next = std::clamp<std::int64_t>(static_cast<std::int64_t>(u / noise_ * static_cast<double>(vocabulary_)), 0,
                                      vocabulary_ - 1);
    }
    ids[done] = static_cast<std::int32_t>(next);
    context = next_context(context, next);
  }
}

Datasets open_synthetic(const Json& config, std::int64_t tokens) {
  Reader reader(config, "data");
  reader.choice("source", {"synthetic"});
  const auto bounded = [&](const char* key, std::int64_t fallback, std::int64_t low, std::int64_t high) {
    const std::int64_t value = reader.integer(key, fallback);
    require(value >= low && value <= high, "{} (from {}) is {}: wanted {} to {}", reader.path_of(key),
            reader.origin_of(key), value, low, high);
    return value;
  };
  const std::int64_t order = bounded("order", 2, 1, 2);
  const std::int64_t vocabulary = bounded("vocabulary", 32, 2, order == 1 ? 65536 : 1024);
  const std::int64_t choices =
      bounded("choices", std::min<std::int64_t>(4, vocabulary), 1, std::min<std::int64_t>(vocabulary, 64));
  const double noise = reader.number("noise", 0.1);
  require(noise >= 0.01 && noise <= 1, "{} (from {}) is {}: wanted 0.01 to 1", reader.path_of("noise"),
          reader.origin_of("noise"), noise);
  const std::int64_t seed = reader.integer("process_seed", 1);
  require(tokens >= 1, "windows of {} ids: wanted at least 1", tokens);
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const std::int64_t train = bounded("train_tokens", std::max<std::int64_t>(1048576, tokens), tokens, kMost);
  const std::int64_t evaluate = bounded("evaluate_tokens", std::max<std::int64_t>(65536, tokens), tokens, kMost);
  reader.done();

  auto chain = std::make_shared<const MarkovChain>(vocabulary, static_cast<int>(order), choices, noise,
                                                   static_cast<std::uint64_t>(seed));
  Json description = reader.resolved();
  // The first label of a window follows one known id only; with order 2 that one is less predictable than the rest.
  const double rate = chain->entropy(static_cast<int>(order)), first = chain->entropy(1);
  description.set("entropy_nats_per_token",
                  (first + static_cast<double>(tokens - 1) * rate) / static_cast<double>(tokens));
  description.set("entropy_rate_nats_per_token", rate);
  description.set("entropy_given_one_id_nats_per_token", first);
  description.set("entropy_given_nothing_nats_per_token", chain->entropy(0));
  const Key key = key_of(static_cast<std::uint64_t>(seed), "windows");
  Datasets sets;
  sets.resolved = reader.resolved();
  sets.train =
      std::make_unique<SyntheticWindows>(chain, key_of(key, 0), tokens, train / tokens, vocabulary, description);
  sets.evaluate =
      std::make_unique<SyntheticWindows>(chain, key_of(key, 1), tokens, evaluate / tokens, vocabulary, description);
  return sets;
}

}  // namespace quadrille
