// SPDX-License-Identifier: Apache-2.0
// BERT's samples out of sentences. Where a sample is cut in two, whether its second segment is replaced, and what is
// masked are functions of (seed, epoch, sample) alone: the same for any number of ranks, other in each epoch.
// Evaluation is the same in every epoch.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "datasets/bert.h"
#include "datasets/bert_documents.h"

namespace quadrille {
namespace {

// Numbers of one sample, in the order they are asked for.
class Draws {
 public:
  explicit Draws(Key key) : key_(key) {}
  double uniform() { return uniform_at(key_, next_++); }
  std::int64_t below(std::int64_t n) {
    return std::min(static_cast<std::int64_t>(uniform() * static_cast<double>(n)), n - 1);
  }

 private:
  Key key_;
  std::uint64_t next_ = 0;
};

struct BertPlan {
  std::int64_t tokens = 0, masked = 0;
  double share = 0.15;
  std::uint64_t seed = 0;
  bool evaluation = false;
};

using Ids = std::vector<std::int32_t>;
struct Segments {
  Ids first, second;
  bool replaced = false;
};

class BertText : public Dataset {
 public:
  BertText(std::shared_ptr<const DocumentSet> documents, BertPlan plan)
      : documents_(std::move(documents)), plan_(plan) {}
  Fields fields() const override { return bert_fields(plan_.tokens, plan_.masked); }
  std::int64_t size() const override { return static_cast<std::int64_t>(documents_->encoded().samples.size()); }
  bool holds(std::int64_t samples) const override {
    return documents_->count() >= samples || static_cast<std::int64_t>(documents_->encode().samples.size()) >= samples;
  }
  std::int64_t vocabulary() const override { return documents_->tokenizer().vocabulary; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override {  // of epoch 0
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
      Draws draws(key_for(0, i));
      sum += masks_of(segments(i, draws));
    }
    return sum;
  }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  void scan() const override {
    documents_->files().scan();
    documents_->encoded();
  }
  Json description() const override {
    Json json = Json::object();
    json.set("source", "bert_text");
    json.set("files", documents_->files().description());
    json.set("tokenizer", documents_->tokenizer().description());
    json.set("documents", documents_->count());
    return json;
  }

 private:
  Key key_for(std::int64_t epoch, std::int64_t index) const {
    const Key family = key_of(plan_.seed, plan_.evaluation ? "bert evaluation" : "bert training");
    return key_of(key_of(family, plan_.evaluation ? 0 : static_cast<std::uint64_t>(epoch)),
                  static_cast<std::uint64_t>(index));
  }
  std::int64_t room() const { return plan_.tokens - 3; }  // [CLS] first [SEP] second [SEP]
  std::int64_t masks_of(const Segments& s) const {
    const auto all = static_cast<double>(s.first.size() + s.second.size() + 3);
    return std::clamp<std::int64_t>(std::llround(plan_.share * all), 1,
                                    std::min<std::int64_t>(plan_.masked, static_cast<std::int64_t>(all) - 3));
  }
  Segments segments(std::int64_t index, Draws& draws) const;
  Ids elsewhere(std::int64_t document, std::int64_t wanted, Draws& draws) const;
  void shorten(Segments& s, Draws& draws) const;
  void mask(const Row& row, std::int64_t count, Draws& draws) const;

  std::shared_ptr<const DocumentSet> documents_;
  BertPlan plan_;
};

void append(Ids& to, std::span<const std::int32_t> ids) { to.insert(to.end(), ids.begin(), ids.end()); }

// Sentences of another document, from an arbitrary one on, until there are enough ids.
Ids BertText::elsewhere(std::int64_t document, std::int64_t wanted, Draws& draws) const {
  const EncodedDocuments& all = documents_->encoded();
  std::int64_t other = draws.below(static_cast<std::int64_t>(all.documents.size()) - 1);
  other += other >= document;
  const Slice sentences = all.documents[static_cast<std::size_t>(other)];
  Ids ids;
  for (std::int64_t s = sentences.first + draws.below(sentences.count);
       s < sentences.end() && static_cast<std::int64_t>(ids.size()) < wanted; ++s)
    append(ids, all.sentence(s));
  return ids;
}

// Takes ids off the longer segment, from its front or its end by chance, until both fit.
void BertText::shorten(Segments& s, Draws& draws) const {
  std::array<Ids*, 2> both = {&s.first, &s.second};
  std::array<std::size_t, 2> from{}, to = {s.first.size(), s.second.size()};
  while (static_cast<std::int64_t>(to[0] - from[0] + to[1] - from[1]) > room()) {
    const std::size_t longer = to[0] - from[0] > to[1] - from[1] ? 0 : 1;
    draws.uniform() < 0.5 ? ++from[longer] : --to[longer];
  }
  for (std::size_t i = 0; i < 2; ++i)
    *both[i] = Ids(both[i]->begin() + static_cast<std::ptrdiff_t>(from[i]),
                   both[i]->begin() + static_cast<std::ptrdiff_t>(to[i]));
}

Segments BertText::segments(std::int64_t index, Draws& draws) const {
  const EncodedDocuments& all = documents_->encoded();
  const Slice sentences = all.samples[static_cast<std::size_t>(index)];
  const std::int64_t document = all.owner[static_cast<std::size_t>(index)];
  const std::int64_t first = sentences.count == 1 ? 1 : 1 + draws.below(sentences.count - 1);
  Segments result;
  result.replaced = sentences.count == 1 || draws.uniform() < 0.5;
  for (std::int64_t s = sentences.first; s < sentences.first + first; ++s) append(result.first, all.sentence(s));
  if (result.replaced) {
    result.second =
        elsewhere(document, std::max<std::int64_t>(room() - static_cast<std::int64_t>(result.first.size()), 1), draws);
  } else {
    for (std::int64_t s = sentences.first + first; s < sentences.end(); ++s) append(result.second, all.sentence(s));
  }
  shorten(result, draws);
  return result;
}

// 80 % of the chosen become [MASK], 10 % another piece, 10 % stay.
void BertText::mask(const Row& row, std::int64_t count, Draws& draws) const {
  const auto ids = row.integers("ids"), places = row.integers("places"), labels = row.integers("labels");
  const auto& marks = documents_->tokenizer().marks;
  std::vector<std::int32_t> chosen;
  for (std::size_t i = 0; i < ids.size() && ids[i] >= 0; ++i) {
    if (ids[i] != marks[0] && ids[i] != marks[1]) chosen.push_back(static_cast<std::int32_t>(i));
  }
  const auto n = std::min(static_cast<std::size_t>(count), chosen.size());
  for (std::size_t i = 0; i < n; ++i)
    std::swap(chosen[i],
              chosen[i + static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(chosen.size() - i)))]);
  chosen.resize(n);
  std::ranges::sort(chosen);
  for (std::size_t i = 0; i < n; ++i) {
    std::int32_t& id = ids[static_cast<std::size_t>(chosen[i])];
    places[i] = chosen[i];
    labels[i] = id;
    const double dice = draws.uniform();
    if (dice < 0.8)
      id = marks[2];
    else if (dice < 0.9)
      id = static_cast<std::int32_t>(draws.below(vocabulary()));
  }
}

void BertText::read(std::int64_t epoch, std::int64_t index, const Row& row) const {
  require(epoch >= 0 && index >= 0 && index < size(), "sample {} of epoch {} of {}: it has samples 0 to {}", index,
          epoch, documents_->files().name(), size() - 1);
  Draws draws(key_for(epoch, index));
  const Segments s = segments(index, draws);
  row.pad();
  const auto ids = row.integers("ids"), segment = row.integers("segments");
  const auto& marks = documents_->tokenizer().marks;
  std::size_t at = 0;
  const auto put = [&](std::int32_t id, std::int32_t which) {
    ids[at] = id;
    segment[at++] = which;
  };
  put(marks[0], 0);
  for (std::int32_t id : s.first) put(id, 0);
  put(marks[1], 0);
  for (std::int32_t id : s.second) put(id, 1);
  put(marks[1], 1);
  row.integers("next")[0] = s.replaced;
  mask(row, masks_of(s), draws);
}

std::unique_ptr<Dataset> opened(TextFiles files, const MarkedTokenizer& tokenizer, DocumentChoice choice,
                                BertPlan plan) {
  plan.evaluation = choice.evaluation;
  return std::make_unique<BertText>(std::make_shared<DocumentSet>(std::move(files), tokenizer, choice, plan.tokens - 3),
                                    plan);
}

BertPlan plan_of(Reader& reader, std::int64_t tokens) {
  BertPlan plan;
  plan.tokens = tokens;
  require(tokens >= 8, "model.tokens is {}: BERT's rows hold three marks and two segments, so wanted are at least 8",
          tokens);
  plan.share = reader.number("share", 0.15);
  require(plan.share > 0 && plan.share < 1, "data.share (from {}) is {}: wanted a part of 1", reader.origin_of("share"),
          plan.share);
  plan.masked =
      reader.integer("masked", static_cast<std::int64_t>(std::ceil(plan.share * static_cast<double>(tokens))));
  require(plan.masked >= 1 && plan.masked <= tokens - 3, "data.masked (from {}) is {}: wanted 1 to {} (tokens - 3)",
          reader.origin_of("masked"), plan.masked, tokens - 3);
  plan.seed = static_cast<std::uint64_t>(reader.integer("seed", 0));
  return plan;
}

}  // namespace

Fields bert_fields(std::int64_t tokens, std::int64_t masked) {
  return {{"ids", {tokens}, DType::i32},
          {"segments", {tokens}, DType::i32},
          {"places", {masked}, DType::i32},
          {"labels", {masked}, DType::i32},
          {"next", {1}, DType::i32}};
}

Datasets open_bert_text(const Json& config, std::int64_t tokens, const std::string& data_root) {
  Reader reader(config, "data");
  reader.choice("source", {"bert_text"});
  const auto [directory, train_names, evaluate_names] =
      read_text_names(reader, data_root, "; evaluate_every parts the documents of one file");
  const std::int64_t every = evaluate_names.empty() ? reader.integer("evaluate_every", 10) : 0;
  require(every == 0 || every >= 2, "data.evaluate_every (from {}) is {}: wanted 2 or more, or 0 for no evaluation",
          reader.origin_of("evaluate_every"), every);
  const Json named = reader.needed("tokenizer");
  const BertPlan plan = plan_of(reader, tokens);
  reader.done();
  TextFiles train(directory, train_names);
  Datasets sets;
  sets.resolved = reader.resolved();
  const MarkedTokenizer tokenizer =
      open_marked_tokenizer(named, "data.tokenizer", train, data_root, {"[CLS]", "[SEP]", "[MASK]"});
  sets.resolved.set("tokenizer", tokenizer.resolved);
  if (!evaluate_names.empty())
    sets.evaluate = opened(TextFiles(directory, evaluate_names), tokenizer, {0, true}, plan);
  else if (every > 0)
    sets.evaluate = opened(TextFiles(directory, train_names), tokenizer, {every, true}, plan);
  sets.train = opened(std::move(train), tokenizer, {every, false}, plan);
  return sets;
}

}  // namespace quadrille
