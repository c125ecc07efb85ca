// SPDX-License-Identifier: Apache-2.0
// Cases of embedding and cross-entropy, whole and split vocabularies.
#include <fmt/core.h>

#include "tests/kernels/op_cases.h"

namespace quadrille {

namespace {

constexpr double kTolerance = 2e-6;

struct Lookup {
  std::int64_t rows, table_rows, columns, first_row, words;  // ids are drawn from [-1, words)
};

void run_embedding(Bench& b, const Lookup& l) {
  const Tensor table = b.normal({l.table_rows, l.columns}), ids = b.put_ids({l.rows}, b.ids(l.rows, -1, l.words));
  const Tensor out = b.unset({l.rows, l.columns});
  b.bill(b.ops().embedding(b.stream(), out, table, ids, l.first_row));
  b.result("out", out, 1e-9);
}

void run_embedding_backward(Bench& b, const Lookup& l) {
  const Tensor dtable = b.normal_sum({l.table_rows, l.columns}), ids = b.put_ids({l.rows}, b.ids(l.rows, -1, l.words));
  const Tensor dout = b.normal({l.rows, l.columns});
  b.bill(b.ops().embedding_backward(b.stream(), dtable, dout, ids, l.first_row));
  b.result("dtable", dtable, kTolerance);
}

void add_embedding(std::vector<OpCase>& cases) {
  const std::pair<const char*, void (*)(Bench&, const Lookup&)> ops[] = {
      {"embedding", run_embedding}, {"embedding_backward", run_embedding_backward}};
  const std::pair<const char*, Lookup> lookups[] = {{"whole", {33, 11, 64, 0, 11}},
                                                    {"whole, one column", {40, 5, 1, 0, 5}},
                                                    {"part of the words", {65, 7, 9, 10, 30}},
                                                    {"many rows for few words", {300, 3, 7, 0, 3}},
                                                    {"few rows for many words", {5, 200, 33, 0, 200}}};
  for (const auto& [op, run] : ops)
    for (const auto& [name, lookup] : lookups)
      cases.push_back({op, fmt::format("{} {}", op, name), [run = run, lookup = lookup](Bench& b) {
                         Lookup nothing = lookup;
                         nothing.rows = 0;
                         run(b, nothing);
                         run(b, lookup);
                       }});
}

void add_sinusoids(std::vector<OpCase>& cases) {
  const std::pair<const char*, std::pair<Shape, Sinusoids>> some[] = {
      {"whole", {{3, 7, 8}, {.factor = 2.5, .features = 8}}},
      {"an odd number of features", {{2, 5, 7}, {.factor = 0.5, .features = 7}}},
      {"a part of the features", {{2, 4, 70}, {.first_feature = 3, .features = 80}}},
      {"a part of the tokens", {{2, 6, 10}, {.first_token = 4, .features = 10, .jump = {.after = 3, .by = 9}}}},
      {"backward", {{3, 7, 9}, {.factor = 3, .amplitude = 0, .features = 9}}},
      {"far away", {{1, 2, 130}, {.amplitude = 0.5, .first_token = 4000, .features = 130}}}};
  for (const auto& [name, what] : some)
    cases.push_back({"sinusoids", fmt::format("sinusoids {}", name), [shape = what.first, how = what.second](Bench& b) {
                       const Tensor none = b.unset({0, shape[1], shape[2]});
                       b.bill(b.ops().sinusoids(b.stream(), none, none, how));
                       const Tensor x = b.normal(shape), out = b.unset(shape);
                       b.bill(b.ops().sinusoids(b.stream(), out, x, how));
                       b.result("out", out, kTolerance);
                       b.bill(b.ops().sinusoids(b.stream(), x, x, how));
                       b.result("in place", x, kTolerance);
                     }});
}

void run_lengths(Bench& b, std::int64_t rows, std::int64_t tokens) {
  const Tensor ids = b.put_ids({rows, tokens}, b.ids(rows * tokens, -1, 2)), lengths = b.unset({rows}, DType::i32);
  b.bill(b.ops().row_lengths(b.stream(), lengths, ids));
  b.result("lengths", lengths, 0);
}

// Each case has results beyond a hundred too: of a smaller integer one percent is nothing.
void add_row_lengths(std::vector<OpCase>& cases) {
  for (const std::int64_t tokens : {1, 31, 32, 33, 500})
    cases.push_back({"row_lengths", fmt::format("row_lengths {}", tokens), [tokens](Bench& b) {
                       for (const std::int64_t rows : {0, 1, 19}) run_lengths(b, rows, tokens);
                       run_lengths(b, 130, 400 + tokens);
                     }});
}

void add_positions(std::vector<OpCase>& cases) {
  const std::tuple<std::int64_t, std::int64_t, Jump> some[] = {{7, 1000, {}},
                                                               {64, 500, {}},
                                                               {9, 300, {.after = 4, .by = 200}},
                                                               {300, 1000, {.after = 150, .by = 1}},
                                                               {1, 200, {.after = 0, .by = 300}}};
  for (const auto& [tokens, first, jump] : some)
    cases.push_back({"positions",
                     fmt::format("positions {} from {} and {} after {}", tokens, first, jump.by, jump.after),
                     [tokens = tokens, first = first, jump = jump](Bench& b) {
                       const Tensor none = b.unset({0, tokens}, DType::i32), ids = b.unset({3, tokens}, DType::i32);
                       b.bill(b.ops().positions(b.stream(), none, first, jump));
                       b.bill(b.ops().positions(b.stream(), ids, first, jump));
                       b.result("ids", ids, 1e-7);
                     }});
}

struct Tokens {
  std::int64_t count, first;
  Jump jump;
};

void run_places(Bench& b, const Tokens& t, std::int64_t rows) {
  const Tensor places = b.put_ids({rows, 29}, b.ids(rows * 29, -1, 40)), out = b.unset({rows, 29}, DType::i32);
  b.bill(b.ops().rows_of_places(b.stream(), out, places, t.count, t.first, t.jump));
  b.result("rows", out, 1e-9);
}

// As above: with results beyond a hundred.
void add_places(std::vector<OpCase>& cases) {
  const Tokens some[] = {{40, 0, {}}, {12, 20, {}}, {11, 3, {.after = 4, .by = 15}}, {1, 7, {}}, {0, 0, {}}};
  for (const Tokens& t : some)
    cases.push_back(
        {"rows_of_places",
         fmt::format("rows_of_places {} from {} and {} after {}", t.count, t.first, t.jump.by, t.jump.after),
         [t](Bench& b) {
           for (const std::int64_t rows : {0, 3, 70}) run_places(b, t, rows);
           if (t.count < 2) run_places(b, {40, 0, {}}, 70);
         }});
}

// This rank holds `held` words from how.first_word on, of how.words.
struct Loss {
  std::int64_t rows, held;
  CrossEntropy how;
  double deviation = 2;
};

// What the later ops read, from the whole vocabulary by the reference.
struct Given {
  Numbers logits, max, sums;
  Ids labels;
};

Given given(Bench& b, const Loss& l) {
  const Numbers whole = b.normals(l.rows * l.how.words, l.deviation);
  Given g;
  g.labels = b.ids(l.rows, 0, l.how.words);
  for (std::size_t i = 0; i < g.labels.size(); i += 4) g.labels[i] = -1;  // not counted
  for (std::int64_t i = 0; i < l.rows; ++i)
    for (std::int64_t j = 0; j < l.held; ++j)
      g.logits.push_back(whole[static_cast<std::size_t>(i * l.how.words + l.how.first_word + j)]);
  ReferenceBench r;
  CrossEntropy all = l.how;
  all.first_word = 0;
  const Tensor logits = r->put({l.rows, l.how.words}, whole), labels = r->put_ids({l.rows}, g.labels);
  const Tensor max = r->unset({l.rows}), sums = r->unset({l.rows, 3});
  r->ops().cross_entropy_max(r->stream(), max, logits);
  r->ops().cross_entropy_sums(r->stream(), sums, logits, max, labels, all);
  g.max = r->read(max), g.sums = r->read(sums);
  return g;
}

void run_max(Bench& b, const Loss& l) {
  const Tensor logits = b.normal({l.rows, l.held}, l.deviation), max = b.unset({l.rows}, DType::f64);
  b.bill(b.ops().cross_entropy_max(b.stream(), max, logits));
  b.result("max", max, 1e-9);
}

void run_sums(Bench& b, const Loss& l) {
  const Given g = given(b, l);
  const Tensor logits = b.put({l.rows, l.held}, g.logits), max = b.put_wide({l.rows}, g.max),
               labels = b.put_ids({l.rows}, g.labels);
  const Tensor sums = b.unset({l.rows, 3}, DType::f64);
  b.bill(b.ops().cross_entropy_sums(b.stream(), sums, logits, max, labels, l.how));
  b.result_by_column("sums", sums, kTolerance);
}

void run_loss(Bench& b, const Loss& l) {
  const Given g = given(b, l);
  const Tensor sums = b.put_wide({l.rows, 3}, g.sums), max = b.put_wide({l.rows}, g.max),
               labels = b.put_ids({l.rows}, g.labels);
  const Tensor loss = b.put_wide({2}, {0.25, 1});  // is added to
  b.bill(b.ops().cross_entropy_loss(b.stream(), loss, sums, max, labels, l.how));
  b.result("loss", loss, 1e-9);
}

// Logits and labels such that some rows have several largest logits and some labels are among them.
void run_matches(Bench& b, const Loss& l) {
  Given g = given(b, l);
  for (std::int64_t i = 0; i < l.rows; ++i)
    for (std::int64_t j = 0; j < l.held && j < i % 4; ++j)
      g.logits[static_cast<std::size_t>(i * l.held + (3 * j + i) % l.held)] = g.max[static_cast<std::size_t>(i)];
  for (std::int64_t i = 0; i < l.rows; i += 2)
    if (g.labels[static_cast<std::size_t>(i)] >= 0)
      g.labels[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(l.how.first_word + i % l.held);
  const Tensor logits = b.put({l.rows, l.held}, g.logits), max = b.put_wide({l.rows}, g.max),
               labels = b.put_ids({l.rows}, g.labels), matches = b.unset({l.rows, 2}, DType::f64);
  b.bill(b.ops().label_matches(b.stream(), matches, logits, max, labels, l.how));
  b.result("matches", matches, 1e-12);
}

void run_correct(Bench& b, const Loss& l) {
  const Given g = given(b, l);
  Numbers matches;
  for (std::int64_t i = 0; i < l.rows; ++i)
    matches.insert(matches.end(), {static_cast<double>(i % 4), i % 3 ? 1.0 : 0.0});
  const Tensor two = b.put_wide({l.rows, 2}, matches), labels = b.put_ids({l.rows}, g.labels),
               correct = b.put_wide({1}, {0.5});  // is added to
  b.bill(b.ops().count_correct(b.stream(), correct, two, labels));
  b.result("correct", correct, 1e-12);
}

void run_backward(Bench& b, const Loss& l) {
  const Given g = given(b, l);
  const Tensor logits = b.put({l.rows, l.held}, g.logits), max = b.put_wide({l.rows}, g.max),
               sums = b.put_wide({l.rows, 3}, g.sums);
  const Tensor labels = b.put_ids({l.rows}, g.labels), dlogits = b.unset({l.rows, l.held});
  b.bill(b.ops().cross_entropy_backward(b.stream(), dlogits, logits, max, sums, labels, {}, l.how));
  b.result("dlogits", dlogits, kTolerance);
  const Tensor counts = b.put_wide({2}, {24, 7});
  b.bill(b.ops().cross_entropy_backward(b.stream(), dlogits, logits, max, sums, labels, counts, l.how));
  b.result("scaled", dlogits, kTolerance);
  b.bill(b.ops().cross_entropy_backward(b.stream(), logits, logits, max, sums, labels, {}, l.how));
  b.result("in place", logits, kTolerance);
}

void add_cross_entropy(std::vector<OpCase>& cases) {
  const std::pair<const char*, void (*)(Bench&, const Loss&)> ops[] = {
      {"cross_entropy_max", run_max}, {"cross_entropy_sums", run_sums}, {"cross_entropy_loss", run_loss},
      {"label_matches", run_matches}, {"count_correct", run_correct},   {"cross_entropy_backward", run_backward}};
  const std::pair<const char*, Loss> losses[] = {
      {"whole", {9, 13, {.words = 13}}},
      {"two words", {3, 2, {.words = 2}}},
      {"509 words", {5, 509, {.words = 509}}},
      {"part of the words", {21, 17, {.first_word = 8, .words = 33}}},
      {"smoothed", {9, 32, {.words = 32, .smoothing = 0.1}}},
      {"smoothed, part of the words", {21, 17, {.first_word = 16, .words = 33, .smoothing = 0.2}}},
      {"large logits", {9, 40, {.words = 40}, 30}},
      {"logits of thousands", {9, 40, {.words = 40, .smoothing = 0.1}, 2000}}};
  for (const auto& [op, run] : ops)
    for (const auto& [name, loss] : losses)
      cases.push_back({op, fmt::format("{} {}", op, name), [run = run, loss = loss](Bench& b) {
                         Loss nothing = loss;
                         nothing.rows = 0;
                         run(b, nothing);
                         run(b, loss);
                       }});
}

}  // namespace

void add_embedding_and_loss_cases(std::vector<OpCase>& cases) {
  add_embedding(cases);
  add_positions(cases);
  add_sinusoids(cases);
  add_row_lengths(cases);
  add_places(cases);
  add_cross_entropy(cases);
}

}  // namespace quadrille
