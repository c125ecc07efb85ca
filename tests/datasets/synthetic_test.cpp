// SPDX-License-Identifier: Apache-2.0
// The synthetic text's entropy: against brute force over all sequences, and against what the text itself shows.
#include "datasets/synthetic.h"

#include <cmath>
#include <map>

#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

// Entropy per token of all sequences of `length`, by adding up every one of them: H(x1..xn) - H(x1..xn-1).
double block_entropy(const MarkovChain& chain, int vocabulary, int order, int length) {
  double nats = 0;
  std::vector<int> ids(static_cast<std::size_t>(length));
  const auto total = static_cast<std::int64_t>(std::pow(vocabulary, length));
  for (std::int64_t code = 0; code < total; ++code) {
    std::int64_t rest = code;
    for (auto& id : ids) id = static_cast<int>(rest % vocabulary), rest /= vocabulary;
    std::int64_t context = order == 1 ? ids[0] : ids[0] * vocabulary + ids[1];
    double p = chain.stationary()[static_cast<std::size_t>(context)];
    for (int i = order; i < length; ++i) {
      p *= chain.probability(context, ids[static_cast<std::size_t>(i)]);
      context = order == 1 ? ids[static_cast<std::size_t>(i)]
                           : context % vocabulary * vocabulary + ids[static_cast<std::size_t>(i)];
    }
    if (p > 0) nats -= p * std::log(p);
  }
  return nats;
}

TEST(MarkovChain, RowsAddUpAndTheStationaryDistributionStays) {
  for (int order : {1, 2}) {
    const MarkovChain chain(7, order, 3, 0.05, 11);
    std::vector<double> after(static_cast<std::size_t>(chain.contexts()));
    double total = 0;
    for (std::int64_t c = 0; c < chain.contexts(); ++c) {
      double row = 0;
      for (std::int64_t v = 0; v < 7; ++v) {
        row += chain.probability(c, v);
        after[static_cast<std::size_t>(order == 1 ? v : c % 7 * 7 + v)] +=
            chain.stationary()[static_cast<std::size_t>(c)] * chain.probability(c, v);
      }
      EXPECT_NEAR(row, 1, 1e-14);
      total += chain.stationary()[static_cast<std::size_t>(c)];
    }
    EXPECT_NEAR(total, 1, 1e-13);
    for (std::size_t c = 0; c < after.size(); ++c) EXPECT_NEAR(after[c], chain.stationary()[c], 1e-13);
  }
}

TEST(MarkovChain, EntropyIsThatOfAllSequencesAddedUp) {
  for (int order : {1, 2}) {
    const MarkovChain chain(4, order, 2, 0.1, 5);
    EXPECT_NEAR(chain.entropy(order), block_entropy(chain, 4, order, 7) - block_entropy(chain, 4, order, 6), 1e-12);
    EXPECT_NEAR(
        chain.entropy(1),
        block_entropy(chain, 4, order, 2) -
            [&] {
              double h = 0;
              for (int a = 0; a < 4; ++a) {
                double p = 0;
                for (std::int64_t c = 0; c < chain.contexts(); ++c)
                  p += c % 4 == a ? chain.stationary()[static_cast<std::size_t>(c)] : 0;
                h -= p * std::log(p);
              }
              return h;
            }(),
        1e-12);
    EXPECT_GT(chain.entropy(0), chain.entropy(order));
  }
}

Datasets open(const std::string& config, std::int64_t tokens) {
  return open_datasets(parse_json(config, "test"), tokens, "");
}

TEST(Synthetic, MeasuredEntropyIsTheStatedOne) {
  const Datasets sets =
      open(R"({"source": "synthetic", "vocabulary": 8, "order": 2, "choices": 3, "train_tokens": 400000})", 100);
  std::map<std::int64_t, std::map<std::int32_t, double>> counts;
  double pairs = 0;
  for (std::int64_t i = 0; i < sets.train->size(); ++i) {
    const Batch sample = single_sample(*sets.train, 0, i);
    const std::vector<std::int32_t>&ids = sample.integers("ids"), &labels = sample.integers("labels");
    for (std::size_t j = 1; j < 100; ++j) {
      ASSERT_EQ(ids[j], labels[j - 1]);
      ++counts[ids[j - 1] * 8 + ids[j]][labels[j]], ++pairs;
    }
  }
  double nats = 0;
  for (const auto& [context, next] : counts) {
    double all = 0;
    for (const auto& [id, n] : next) all += n;
    for (const auto& [id, n] : next) nats -= n / pairs * std::log(n / all);
  }
  const double stated = sets.train->description().at("entropy_rate_nats_per_token").number();
  EXPECT_NEAR(nats, stated, 0.005);  // 396,000 samples of about 1 nat of spread: 0.002 of noise
  const double whole = sets.train->description().at("entropy_nats_per_token").number();
  const double first = sets.train->description().at("entropy_given_one_id_nats_per_token").number();
  EXPECT_NEAR(whole, stated + (first - stated) / 100, 1e-12);
  EXPECT_GT(sets.train->description().at("entropy_given_nothing_nats_per_token").number(), stated + 0.3);
}

TEST(Synthetic, FirstIdsFollowTheStationaryDistribution) {
  const MarkovChain chain(5, 1, 2, 0.2, 3);
  std::vector<double> counts(5);
  for (std::uint64_t i = 0; i < 100000; ++i) {
    std::int32_t id = 0;
    chain.sample(key_of(1, i), {&id, 1});
    ++counts[static_cast<std::size_t>(id)];
  }
  for (std::size_t v = 0; v < 5; ++v) EXPECT_NEAR(counts[v] / 100000, chain.stationary()[v], 0.006);
}

TEST(Synthetic, WindowsAreAddressedAndNeverRepeat) {
  const Datasets sets = open(R"({"source": "synthetic"})", 64);
  const Datasets again = open(sets.resolved.text(), 64);
  EXPECT_EQ(sets.resolved, again.resolved);
  EXPECT_EQ(training_batch(*sets.train, 1, 5, 8, {0, 8}).integers("ids"),
            training_batch(*again.train, 1, 5, 8, {0, 8}).integers("ids"));
  const auto ids = [](const Dataset& data, std::int64_t epoch) {
    return single_sample(data, epoch, 3).integers("ids");
  };
  EXPECT_NE(ids(*sets.train, 0), ids(*sets.train, 1));
  EXPECT_NE(ids(*sets.train, 0), ids(*sets.evaluate, 0));
  EXPECT_EQ(sets.train->size(), 1048576 / 64);
  EXPECT_EQ(sets.evaluate->labels(), 65536);
  EXPECT_EQ(sets.evaluate->units(), 65536);
  EXPECT_EQ(sets.evaluate->unit(), "token");
}

TEST(Synthetic, IdsStayInTheVocabularyAtItsEdges) {
  for (const char* config : {R"({"source": "synthetic", "vocabulary": 2, "order": 1, "choices": 1, "noise": 1.0})",
                             R"({"source": "synthetic", "vocabulary": 2, "order": 2, "choices": 2, "noise": 0.01})",
                             R"({"source": "synthetic", "vocabulary": 300, "order": 1})"}) {
    const Datasets sets = open(config, 50);
    for (std::int32_t id : training_batch(*sets.train, 1, 0, 100, {0, 100}).integers("ids")) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, sets.train->vocabulary());
    }
  }
  EXPECT_NEAR(MarkovChain(2, 1, 1, 1.0, 1).entropy(1), std::log(2.0), 1e-12);
}

TEST(Synthetic, WrongSizesAreNamed) {
  const auto refused = [](const char* config) { return message_of([&] { open(config, 64); }); };
  expect_parts(refused(R"({"source": "synthetic", "vocabulary": 1})"), {"data.vocabulary", "is 1", "2 to 1024"});
  expect_parts(refused(R"({"source": "synthetic", "order": 3})"), {"data.order", "is 3"});
  expect_parts(refused(R"({"source": "synthetic", "noise": 0})"), {"data.noise", "is 0"});
  expect_parts(refused(R"({"source": "synthetic", "choices": 33})"), {"data.choices", "is 33", "1 to 32"});
  expect_parts(refused(R"({"source": "synthetic", "train_tokens": 63})"), {"data.train_tokens", "is 63"});
  expect_parts(refused(R"({"source": "synthetic", "directory": "x"})"), {"directory"});
}

}  // namespace
}  // namespace quadrille
