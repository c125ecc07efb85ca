// SPDX-License-Identifier: Apache-2.0
#include "datasets/bpe.h"

#include <numeric>
#include <queue>
#include <tuple>

#include "core/error.h"
#include "datasets/words.h"

namespace quadrille {
namespace {

std::uint64_t key_of_pair(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

std::array<unsigned char, 256> plain_order() {
  std::array<unsigned char, 256> order;
  std::iota(order.begin(), order.end(), static_cast<unsigned char>(0));
  return order;
}

class OwnBpe : public BpeTokenizer {
 public:
  explicit OwnBpe(const std::vector<Merge>& merges) : BpeTokenizer(plain_order(), merges) {}
  void encode(std::string_view text, std::string_view, std::int64_t, std::vector<std::int32_t>& ids) const override {
    WordCache cache;
    split_words(text, false, byte_class, [&](std::string_view word) {
      const auto& made = cache.get(word, [this](std::string_view w) { return merge_word(w); });
      ids.insert(ids.end(), made.begin(), made.end());
    });
  }
  Json description() const override {
    Json json = Json::object();
    json.set("kind", "bpe");
    json.set("vocabulary", vocabulary());
    return json;
  }
};

}  // namespace

BpeTokenizer::BpeTokenizer(const std::array<unsigned char, 256>& byte_order, const std::vector<Merge>& merges) {
  bytes_.reserve(256 + merges.size() + 1);
  for (std::size_t id = 0; id < 256; ++id) {
    byte_ids_[byte_order[id]] = static_cast<std::int32_t>(id);
    bytes_.emplace_back(1, static_cast<char>(byte_order[id]));
  }
  merged_.reserve(merges.size());
  for (const auto& [left, right] : merges) {
    const auto id = static_cast<std::int32_t>(bytes_.size());
    require(left >= 0 && left < id && right >= 0 && right < id,
            "merge {} joins ids {} and {}: both must be known before it", id - 256, left, right);
    require(merged_.emplace(key_of_pair(left, right), id).second, "merge {} joins ids {} and {} a second time",
            id - 256, left, right);
    bytes_.push_back(bytes_[static_cast<std::size_t>(left)] + bytes_[static_cast<std::size_t>(right)]);
  }
}

std::string_view BpeTokenizer::bytes_of(std::int32_t id) const {
  require(id >= 0 && id < vocabulary(), "id {} is beyond the {} ids of the tokenizer", id, vocabulary());
  return bytes_[static_cast<std::size_t>(id)];
}

std::vector<std::int32_t> BpeTokenizer::merge_word(std::string_view word) const {
  // A doubly linked list of symbols and a queue of possible merges: n log n, so that a run of a million equal
  // characters is no trap. A queue entry is stale when its symbols are no longer what they were.
  using Candidate = std::tuple<std::int32_t, std::size_t, std::int32_t, std::int32_t>;  // id made, place, left, right
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const std::size_t n = word.size();
  std::vector<std::int32_t> ids(n);
  std::vector<std::size_t> next(n), previous(n);
  for (std::size_t i = 0; i < n; ++i)
    ids[i] = byte_ids_[static_cast<unsigned char>(word[i])], next[i] = i + 1, previous[i] = i - 1;
  const auto offer = [&](std::size_t left) {
    if (left >= n || next[left] >= n) return;
    const auto found = merged_.find(key_of_pair(ids[left], ids[next[left]]));
    if (found != merged_.end()) queue.emplace(found->second, left, ids[left], ids[next[left]]);
  };
  for (std::size_t i = 0; i + 1 < n; ++i) offer(i);
  while (!queue.empty()) {
    const auto [made, left, left_id, right_id] = queue.top();
    queue.pop();
    const std::size_t right = next[left];
    if (ids[left] != left_id || right >= n || ids[right] != right_id) continue;
    ids[left] = made;
    ids[right] = -1;
    next[left] = next[right];
    if (next[left] < n) previous[next[left]] = left;
    offer(previous[left]);
    offer(left);
  }
  std::vector<std::int32_t> left_over;
  for (std::size_t i = 0; i < n; i = next[i]) left_over.push_back(ids[i]);
  return left_over;
}

std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::vector<Merge>& merges) {
  return std::make_unique<OwnBpe>(merges);
}

}  // namespace quadrille
