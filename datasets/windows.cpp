// SPDX-License-Identifier: Apache-2.0
// Windows over a row of ids: the training cut, which moves from epoch to epoch, and the evaluation cut, which does not.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "datasets/tokens.h"

namespace quadrille {
namespace {

class Windows : public Dataset {
 public:
  Windows(std::shared_ptr<const Tokens> source, std::int64_t tokens) : source_(std::move(source)), tokens_(tokens) {
    require(tokens >= 1, "windows of {} ids: wanted at least 1", tokens);
  }
  Fields fields() const override { return text_fields(tokens_); }
  std::string needed(std::int64_t samples) const override {
    return fmt::format("{} x {} + 1 = {} tokens", samples, tokens_,
                       static_cast<double>(samples) * static_cast<double>(tokens_) + 1);
  }
  std::int64_t vocabulary() const override { return source_->vocabulary(); }
  double units() const override { return source_->units({1, labels()}); }
  std::string unit() const override { return source_->unit(); }
  void scan() const override {
    size();
    source_->scan();
  }
  Json description() const override { return source_->description(); }

 protected:
  void expect(std::int64_t epoch, std::int64_t index) const {
    require(epoch >= 0 && index >= 0 && index < size(), "window {} of epoch {} of {}: it has windows 0 to {}", index,
            epoch, source_->name(), size() - 1);
  }
  // Tokens [start, start + count + 1) as ids and labels.
  void fill(std::int64_t start, std::int64_t count, const Row& row) const {
    const auto ids = row.integers("ids"), labels = row.integers("labels");
    const auto n = static_cast<std::size_t>(count);
    source_->read(start, ids.first(n));
    std::copy(ids.begin() + 1, ids.begin() + static_cast<std::ptrdiff_t>(n), labels.begin());
    source_->read(start + count, labels.subspan(n - 1, 1));
    std::ranges::fill(ids.subspan(n), 0);
    std::ranges::fill(labels.subspan(n), -1);
  }
  std::shared_ptr<const Tokens> source_;
  std::int64_t tokens_;
};

class TrainingWindows : public Windows {
 public:
  using Windows::Windows;
  std::int64_t size() const override {
    const std::int64_t count = source_->count();
    require(
        count >= tokens_ + 1,
        "{} holds {} tokens; one training window takes {} ids and one label more: {} + 1 = {} tokens. Use more text or "
        "shorter windows",
        source_->name(), count, tokens_, tokens_, tokens_ + 1);
    return (count - 1) / tokens_;
  }
  bool holds(std::int64_t windows) const override {
    return windows <= (std::numeric_limits<std::int64_t>::max() - 1) / tokens_ && source_->holds(windows * tokens_ + 1);
  }
  std::int64_t labels() const override { return size() * tokens_; }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    expect(epoch, index);
    const std::int64_t shifted = offset(epoch) + index * tokens_;
    const bool fits = shifted + tokens_ + 1 <= source_->count();
    fill(fits ? shifted : 0, tokens_, row);
  }

 private:
  std::int64_t offset(std::int64_t epoch) const {
    if (epoch == 0) return 0;
    const Key key = key_of(0, "shift of the training cut");
    return static_cast<std::int64_t>(bits_at(key, static_cast<std::uint64_t>(epoch)) %
                                     static_cast<std::uint64_t>(tokens_));
  }
};

class EvaluationWindows : public Windows {
 public:
  using Windows::Windows;
  std::int64_t size() const override { return (labels() + tokens_ - 1) / tokens_; }
  bool holds(std::int64_t windows) const override {
    return windows - 1 <= (std::numeric_limits<std::int64_t>::max() - 2) / tokens_ &&
           source_->holds((windows - 1) * tokens_ + 2);
  }
  std::int64_t labels() const override {
    const std::int64_t count = source_->count();
    require(count >= 2, "{} holds {} tokens; evaluation takes at least 2: the first has no label", source_->name(),
            count);
    return count - 1;
  }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    expect(epoch, index);
    const std::int64_t start = index * tokens_;
    fill(start, std::min(tokens_, this->labels() - start), row);
  }
};

}  // namespace

std::unique_ptr<Dataset> training_windows(std::shared_ptr<const Tokens> source, std::int64_t tokens) {
  return std::make_unique<TrainingWindows>(std::move(source), tokens);
}

std::unique_ptr<Dataset> evaluation_windows(std::shared_ptr<const Tokens> source, std::int64_t tokens) {
  return std::make_unique<EvaluationWindows>(std::move(source), tokens);
}

}  // namespace quadrille
