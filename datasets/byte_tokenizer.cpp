// SPDX-License-Identifier: Apache-2.0
// Bytes as ids: all 256 of them, or only those that the training text uses.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "datasets/tokenizer.h"

namespace quadrille {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer(std::string alphabet, bool compact) : alphabet_(std::move(alphabet)), compact_(compact) {
    ids_.fill(-1);
    for (std::size_t i = 0; i < alphabet_.size(); ++i)
      ids_[static_cast<unsigned char>(alphabet_[i])] = static_cast<std::int32_t>(i);
  }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(alphabet_.size()); }
  void encode(std::string_view text, std::string_view name, std::int64_t offset,
              std::vector<std::int32_t>& ids) const override {
    const std::size_t before = ids.size();
    ids.resize(before + text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      require(ids_[byte] >= 0,
              "{}: byte 0x{:02x} at position {} does not occur in the training text, whose {} distinct bytes are the "
              "compact "
              "alphabet. Use \"alphabet\": \"full\" or train on text that has it",
              name, byte, offset + static_cast<std::int64_t>(i), alphabet_.size());
      ids[before + i] = ids_[byte];
    }
  }
  std::string_view bytes_of(std::int32_t id) const override {
    require(id >= 0 && id < vocabulary(), "id {} is beyond the {} ids of the byte tokenizer", id, vocabulary());
    return std::string_view(alphabet_).substr(static_cast<std::size_t>(id), 1);
  }
  Json description() const override {
    Json json = Json::object();
    json.set("kind", "byte");
    json.set("alphabet", compact_ ? "compact" : "full");
    json.set("vocabulary", vocabulary());
    return json;
  }

 private:
  std::string alphabet_;
  bool compact_;
  std::array<std::int32_t, 256> ids_{};
};

}  // namespace

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (std::int32_t id : ids) text += bytes_of(id);
  return text;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  std::string all(256, '\0');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
  return std::make_unique<ByteTokenizer>(std::move(all), false);
}

std::unique_ptr<Tokenizer> make_compact_tokenizer(const std::string& alphabet) {
  const auto above = [](char a, char b) { return static_cast<unsigned char>(a) >= static_cast<unsigned char>(b); };
  require(!alphabet.empty() && std::ranges::adjacent_find(alphabet, above) == alphabet.end(),
          "a compact alphabet of {} bytes: wanted at least one, each once, in ascending order", alphabet.size());
  return std::make_unique<ByteTokenizer>(alphabet, true);
}

}  // namespace quadrille
