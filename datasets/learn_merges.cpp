// SPDX-License-Identifier: Apache-2.0
// Learning byte pairs (Sennrich, Haddow, Birch, ACL 2016): the most frequent pair becomes a new symbol, again and
// again. Counts of pairs are kept up to date word by word, so that a merge costs only the words that hold it.
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "datasets/tokenizer.h"
#include "datasets/words.h"

namespace quadrille {
namespace {

class Learner {
 public:
  explicit Learner(std::span<const std::string_view> texts) {
    std::unordered_map<std::string_view, std::int64_t> counts;
    for (std::string_view text : texts) {
      split_words(text, false, byte_class, [&](std::string_view word) { ++counts[word]; });
    }
    for (const auto& [text, count] : counts) {
      if (text.size() < 2) continue;
      Word word{{}, count};
      for (char c : text) word.ids.push_back(static_cast<unsigned char>(c));
      words_.push_back(std::move(word));
      add(words_.size() - 1);
    }
    for (const auto& [pair, use] : pairs_) queue_.push({use.count, pair});
  }

  // Merges the best pair that occurs at least twice into `id`; false when there is none.
  bool merge_best(std::int32_t id, Merge& merge) {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto use = pairs_.find(best.pair);
      const std::int64_t now = use == pairs_.end() ? 0 : use->second.count;
      if (now < 2) continue;
      if (now == best.count) {
        merge = {left_of(best.pair), right_of(best.pair)};
        replace(merge, id);
        return true;
      }
      if (now < best.count) queue_.push({now, best.pair});  // a count that grew was queued when it did
    }
    return false;
  }

 private:
  using Pair = std::uint64_t;
  struct Word {
    std::vector<std::int32_t> ids;
    std::int64_t count;
  };
  struct Use {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // all that hold the pair, and some that did
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
  };

  static Pair pair_of(std::int32_t left, std::int32_t right) {
    return static_cast<Pair>(left) << 32 | static_cast<Pair>(right);
  }
  static std::int32_t left_of(Pair pair) { return static_cast<std::int32_t>(pair >> 32); }
  static std::int32_t right_of(Pair pair) { return static_cast<std::int32_t>(pair & 0xffffffffu); }

  void add(std::size_t index) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      Use& use = pairs_[pair_of(word.ids[i], word.ids[i + 1])];
      use.count += word.count;
      if (use.words.empty() || use.words.back() != index) use.words.push_back(index);
    }
  }
  void remove(std::size_t index) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i)
      pairs_[pair_of(word.ids[i], word.ids[i + 1])].count -= word.count;
  }
  void replace(Merge merge, std::int32_t id) {
    const std::vector<std::size_t> holders = std::move(pairs_[pair_of(merge.first, merge.second)].words);
    std::unordered_set<Pair> fresh;
    for (std::size_t index : holders) {
      std::vector<std::int32_t>& ids = words_[index].ids;
      remove(index);
      std::size_t to = 0;
      for (std::size_t from = 0; from < ids.size(); ++from, ++to) {
        const bool here = from + 1 < ids.size() && ids[from] == merge.first && ids[from + 1] == merge.second;
        ids[to] = here ? id : ids[from];
        if (here) ++from;
      }
      ids.resize(to);
      add(index);
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] == id || ids[i + 1] == id) fresh.insert(pair_of(ids[i], ids[i + 1]));
      }
    }
    pairs_.erase(pair_of(merge.first, merge.second));
    for (Pair pair : fresh) queue_.push({pairs_[pair].count, pair});
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Use> pairs_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<Merge> learn_merges(std::span<const std::string_view> texts, std::int64_t vocabulary) {
  require(vocabulary >= 256 && vocabulary <= 65536,
          "a byte-pair vocabulary of {} ids: wanted 256 (bytes only) to 65536", vocabulary);
  Learner learner(texts);
  std::vector<Merge> merges(static_cast<std::size_t>(vocabulary - 256));
  for (std::size_t i = 0; i < merges.size(); ++i) {
    require(
        learner.merge_best(static_cast<std::int32_t>(256 + i), merges[i]),
        "the training text has repeated pairs for a vocabulary of {} ids only; {} were asked for. Ask for fewer or use "
        "more text",
        256 + i, vocabulary);
  }
  return merges;
}

}  // namespace quadrille
