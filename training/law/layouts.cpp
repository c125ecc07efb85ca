// SPDX-License-Identifier: Apache-2.0
// See layouts.h. The values of the factors are literal here; what they mean for the table stands below, one function
// for each part of the grammar (docs/strategies.md).
#include "training/law/layouts.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/error.h"
#include "training/law/equality.h"
#include "training/law/models.h"

namespace quadrille {

namespace {

enum FactorNumber : std::size_t {
  kMesh,
  kRest,
  kPassing,
  kStore,
  kSum,
  kContext,
  kSchedule,
  kMicro,
  kRecompute,
  kOverlap,
  kForm,
  kClip,
  kDType,
  kFactors
};

constexpr std::uint64_t kSeed = 7;
const std::vector<std::string> kStoreAxes = {"x", "y", "c", "depth", "data"};  // all but the one of the stages

void meshes_of(int ranks, std::vector<int>& begun, std::vector<std::vector<int>>& found) {
  if (begun.size() + 1 == std::size(kLawMeshAxes)) {
    begun.push_back(ranks);
    found.push_back(begun);
    begun.pop_back();
    return;
  }
  for (int extent = 1; extent <= ranks; ++extent) {
    if (ranks % extent != 0) continue;
    begun.push_back(extent);
    meshes_of(ranks / extent, begun, found);
    begun.pop_back();
  }
}

std::string mesh_name(const std::vector<int>& mesh) {
  std::string name;
  for (std::size_t m = 0; m < mesh.size(); ++m)
    if (mesh[m] > 1) name += fmt::format("{}{}={}", name.empty() ? "" : " ", kLawMeshAxes[m], mesh[m]);
  return name.empty() ? "one rank" : name;
}

Json list(const std::vector<std::string>& names) {
  Json json = Json::array();
  for (const std::string& name : names) json.push(name);
  return json;
}

}  // namespace

std::vector<std::vector<int>> law_meshes(int ranks) {
  std::vector<std::vector<int>> found;
  std::vector<int> begun;
  meshes_of(ranks, begun, found);
  return found;
}

Workload with_adamw(Workload w, int steps) {
  TrainingConfig& t = w.training;
  Json resolved;
  const Json changed = parse_json(
      fmt::format(R"({{"batch_size": 1, "steps": {}, "optimizer": {}, "rate": {{"peak": 0.003}}}})", steps, kLawAdamW),
      "check");
  const TrainingConfig adamw = read_training(changed, resolved);
  t.steps = adamw.steps, t.optimizer = adamw.optimizer, t.rate = adamw.rate;
  return w;
}

// Sizes divide by every extent that the number of ranks can give to their axis.
LawSpace::LawSpace(std::string_view model, int ranks, const Backend& backend)
    : model_(law_model(model)),
      backends_{std::string(backend.name), backend.computes_f64 ? std::string(backend.name) : "reference",
                std::string(backend.name)} {
  const auto multiple_from = [](std::int64_t n, std::int64_t least) { return n * ((least + n - 1) / n); };
  const std::int64_t n = ranks, heads = multiple_from(n, 4);
  const std::int64_t rows = multiple_from(std::lcm(std::int64_t{4}, 2 * n), 8);  // several micro-batches of each stage
  const std::int64_t tokens = multiple_from(2 * n, 8);                           // two chunks of each rank
  size_ = {rows, tokens, heads, 4 * heads, 8 * heads};
  factors_.resize(kFactors);
  factors_[kMesh] = {"mesh", {}};
  for (const std::vector<int>& mesh : law_meshes(ranks)) {
    Choice choice(kFactors, kOpen);
    choice[kMesh] = static_cast<int>(meshes_.size());
    meshes_.push_back(mesh);
    if (lawful_on_mesh(choice))
      factors_[kMesh].values.push_back(mesh_name(mesh));
    else
      meshes_.pop_back();
  }
  const auto factor = [this](FactorNumber k, const char* name, std::vector<std::string> values) {
    factors_[k] = {name, std::move(values)};
  };
  factor(kRest, "rest", {"", "sequence", "embed", "mlp alone", "heads alone", "sequence within depth"});
  factor(kPassing, "passing", {"", "heads", "mlp", "vocab", "heads mlp vocab", "embed"});
  factor(kStore, "store",
         {"", "zero1", "zero2", "zero3", "zero3 kept", "hybrid", "optimizer everywhere", "weights everywhere"});
  factor(kSum, "sum", {"", "axis by axis"});
  factor(kContext, "context", {"", "gather", "gather balanced", "turn", "ring", "ring balanced"});
  factor(kSchedule, "schedule", {"", "gpipe", "1f1b", "interleaved"});
  factor(kMicro, "micro-batches", {"1", "2", "many"});
  factor(kRecompute, "recompute", {"", "selective", "full"});
  factor(kOverlap, "overlap", {"", "input_gradient", "reduce_scatter", "all_gather", "send", "all"});
  factor(kForm, "model", model_.forms);
  factor(kClip, "clip", {"", "clipped"});
  factors_[kDType] = {"dtype", {"f32 on " + backends_[0], "f64 on " + backends_[1], "bf16 on " + backends_[2]}};
}

std::vector<int> LawSpace::counts() const {
  std::vector<int> counts;
  for (const Factor& f : factors_) counts.push_back(static_cast<int>(f.values.size()));
  return counts;
}

int LawSpace::extent(const Choice& choice, std::string_view mesh_axis) const {
  const auto at = std::find(std::begin(kLawMeshAxes), std::end(kLawMeshAxes), mesh_axis) - std::begin(kLawMeshAxes);
  return meshes_[static_cast<std::size_t>(choice[kMesh])][static_cast<std::size_t>(at)];
}

bool LawSpace::lawful(const Choice& choice) const {
  return lawful_for_model(choice) && lawful_on_mesh(choice) && lawful_in_time(choice);
}

const std::string& LawSpace::value(const Choice& choice, std::size_t factor) const {
  static const std::string open;
  return choice[factor] == kOpen ? open : factors_[factor].values[static_cast<std::size_t>(choice[factor])];
}

// Heads, MLP and vocabulary are cut over two mesh axes, the sequence rests on the inner one: what a layer reads is
// gathered on one and lent on the other.
bool LawSpace::tensor_on_depth(const Choice& choice) const { return value(choice, kRest) == "sequence within depth"; }

// The mesh axes of these that have more than one rank.
std::vector<std::string> LawSpace::real(const Choice& choice, const std::vector<std::string>& mesh_axes) const {
  std::vector<std::string> found;
  for (const std::string& m : mesh_axes)
    if (extent(choice, m) > 1) found.push_back(m);
  return found;
}

// What has no meaning for the model's axes is left out.
bool LawSpace::lawful_for_model(const Choice& choice) const {
  const std::string &rest = value(choice, kRest), &passing = value(choice, kPassing);
  if (rest.starts_with("sequence") && !model_.has(Axis::sequence)) return false;
  if (rest == "heads alone" && !model_.has(Axis::heads)) return false;
  const bool of_tokens = !passing.empty() && passing != "embed";
  return !of_tokens || model_.has(Axis::sequence);
}

// What has no meaning on a mesh is not combined with it.
bool LawSpace::lawful_on_mesh(const Choice& choice) const {
  if (choice[kMesh] == kOpen) return true;
  if (choice[kRest] > 0 && extent(choice, "x") == 1) return false;
  // A table whose words lie on x keeps its features whole on y too: a nested cut cannot begin outside.
  if (value(choice, kRest) == "embed" && extent(choice, "y") > 1) return false;
  if (tensor_on_depth(choice) && (extent(choice, "depth") == 1 || choice[kStore] > 0)) return false;
  if (choice[kPassing] > 0) {
    const bool embed = value(choice, kPassing) == "embed";
    if (extent(choice, embed ? "x" : "y") == 1) return false;
    const std::string& rest = value(choice, kRest);
    if (embed && (rest.starts_with("sequence") || rest == "embed")) return false;  // both mean the residual stream on x
  }
  if (choice[kStore] > 0) {
    const std::string& store = value(choice, kStore);
    const bool everywhere = store.ends_with("everywhere");
    const std::size_t replicas = real(choice, {"data", "depth"}).size();
    if (everywhere ? real(choice, kStoreAxes).empty() : replicas < (store == "hybrid" ? 2U : 1U)) return false;
  }
  if (choice[kSum] > 0 && real(choice, kStoreAxes).size() < 2) return false;
  const bool context = extent(choice, "c") > 1 && model_.has(Axis::sequence);
  if (choice[kContext] != kOpen && (choice[kContext] > 0) != context) return false;
  if (choice[kSchedule] != kOpen && (choice[kSchedule] > 0) != (extent(choice, "pipe") > 1)) return false;
  if (value(choice, kOverlap) == "send" && extent(choice, "pipe") == 1) return false;
  return true;
}

std::int64_t LawSpace::micro_batches(const Choice& choice) const {
  const int stages = extent(choice, "pipe");
  return choice[kMicro] < 2 ? choice[kMicro] + 1 : stages > 1 ? 2 * stages : 4;
}

std::int64_t LawSpace::own_rows(const Choice& choice) const {
  return size_.batch / (extent(choice, "data") * (tensor_on_depth(choice) ? 1 : extent(choice, "depth")));
}

bool LawSpace::lawful_in_time(const Choice& choice) const {
  if (choice[kMesh] == kOpen || choice[kMicro] == kOpen) return true;
  if (own_rows(choice) % micro_batches(choice) != 0) return false;
  return value(choice, kSchedule) != "interleaved" || micro_batches(choice) % extent(choice, "pipe") == 0;
}

Json LawSpace::axes(const Choice& choice) const {
  Json axes = Json::object();
  const auto rest = [&](const char* axis, const std::vector<std::string>& candidates) {
    const std::vector<std::string> where = real(choice, candidates);
    if (!where.empty()) axes.set(axis, list(where));
  };
  const bool nested = tensor_on_depth(choice);
  rest("batch", nested ? std::vector<std::string>{"data"} : std::vector<std::string>{"data", "depth"});
  const std::string& on_x = value(choice, kRest);  // of the residual stream, beside heads, mlp and vocab
  if (model_.has(Axis::height)) rest("height", {"c"});
  if (model_.has(Axis::sequence))
    rest("sequence", on_x.starts_with("sequence") ? std::vector<std::string>{"c", "x"} : std::vector<std::string>{"c"});
  rest("embed", on_x == "embed" ? std::vector<std::string>{"y", "x"} : std::vector<std::string>{"y"});
  for (const std::string axis : {"heads", "mlp", "vocab"}) {
    if (axis == "heads" && !model_.has(Axis::heads)) continue;
    if (!on_x.ends_with("alone") || on_x.starts_with(axis))
      rest(axis.c_str(), nested ? std::vector<std::string>{"depth", "x"} : std::vector<std::string>{"x"});
  }
  return axes;
}

Json LawSpace::passing(const Choice& choice) const {
  Json passing = Json::array();
  const std::pair<const char*, std::vector<std::string>> rows[] = {{"heads", {"heads", "heads", "y"}},
                                                                   {"mlp", {"mlp", "sequence", "y"}},
                                                                   {"vocab", {"vocab", "sequence", "y"}},
                                                                   {"embed", {"embed", "embed", "x"}}};
  for (const auto& [made, row] : rows)
    if (value(choice, kPassing).find(made) != std::string::npos) passing.push(list(row));
  return passing;
}

Json LawSpace::store(const Choice& choice) const {
  const std::string& name = value(choice, kStore);
  const bool everywhere = name.ends_with("everywhere");
  const std::vector<std::string> outer =
      real(choice, everywhere ? kStoreAxes : std::vector<std::string>{"depth", "data"});
  const std::vector<std::string> inner = name == "hybrid" ? real(choice, {"depth"}) : outer;
  Json store = Json::object();
  if (name.starts_with("zero3") || name.starts_with("weights") || name == "hybrid") store.set("weights", list(inner));
  if (store.size() > 0 || name == "zero2") store.set("gradients", list(inner));
  store.set("optimizer", list(outer));
  if (name.ends_with("kept")) store.set("keep_gathered", true);
  return store;
}

Json LawSpace::context(const Choice& choice) const {
  const std::string& name = value(choice, kContext);
  Json context = Json::object();
  context.set("attention", name.substr(0, name.find(' ')));
  context.set("balanced", name.ends_with("balanced"));
  return context;
}

Json LawSpace::table(const Choice& choice) const {
  Json table = Json::object(), mesh = Json::array();
  for (const char* name : kLawMeshAxes)
    if (const int n = extent(choice, name); n > 1) mesh.push(Json(Json::Array{Json(name), Json(n)}));
  if (mesh.size() > 0) table.set("mesh", mesh);
  table.set("axes", axes(choice));
  if (value(choice, kRest) == "embed") table.set("may_gather", list({"embed"}));
  if (choice[kPassing] > 0) table.set("passing", passing(choice));
  if (choice[kStore] > 0) table.set("store", store(choice));
  if (choice[kSum] > 0) table.set("sum", "axis_by_axis");
  if (choice[kContext] > 0) table.set("context", context(choice));
  if (choice[kSchedule] > 0) {
    Json& pipeline = table.set("pipeline", Json::object());
    pipeline.set("axis", "pipe");
    pipeline.set("schedule", value(choice, kSchedule));
    if (value(choice, kSchedule) == "interleaved") pipeline.set("chunks", 2);
  }
  if (choice[kRecompute] > 0) table.set("recompute", value(choice, kRecompute));
  if (choice[kOverlap] > 0)
    table.set("overlap", value(choice, kOverlap) == "all"
                             ? list({"input_gradient", "reduce_scatter", "all_gather", "send"})
                             : list({value(choice, kOverlap)}));
  return table;
}

Json LawSpace::model(const Choice& choice) const { return model_.config(value(choice, kForm), size_); }

TrainingConfig LawSpace::training(const Choice& choice, std::int64_t micro_batch) const {
  Json training = parse_json(R"({"steps": 1, "label_smoothing": 0.1, "optimizer": {"kind": "sgd"},
                                 "rate": {"peak": 0.1}})",
                             "check");
  training.set("batch_size", size_.batch);
  training.set("micro_batch", micro_batch);
  training.set("clip_norm", choice[kClip] > 0 ? 0.05 : 0.0);
  constexpr const char* kTypes[] = {"f32", "f64", "bf16"};
  training.set("dtype", kTypes[choice[kDType]]);
  Json resolved;
  return read_training(training, resolved);
}

std::string LawSpace::text(const Choice& choice, bool of_case) const {
  std::string text;
  for (std::size_t k = 0; k < kFactors; ++k) {
    const bool in_case = k == kForm || k == kDType || k == kClip || (k == kMicro && model_.rows_matter);
    std::string word = value(choice, k);
    if (word.empty() || (k == kMicro && choice[k] == 0) || (of_case && !in_case)) continue;
    if (k == kMicro) word = fmt::format("{} micro-batches", micro_batches(choice));
    if (k == kRest) word += " on x";
    if (k == kPassing || k == kStore || k == kOverlap || k == kRecompute || k == kContext)
      word = factors_[k].name + " " + word;
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

LawLayout LawSpace::layout(const Choice& choice) const {
  require(lawful(choice) && std::find(choice.begin(), choice.end(), kOpen) == choice.end(),
          "a layout was made of a choice that is not complete or not lawful");
  LawLayout layout;
  layout.name = text(choice, false), layout.serial_name = text(choice, true);
  layout.backend = backends_[choice[kDType]];
  Workload& w = layout.serial;
  w.model = model(choice);
  const bool parts = model_.rows_matter && micro_batches(choice) > 1;
  w.training = training(choice, parts ? size_.batch / micro_batches(choice) : 0);
  layout.bounds = w.training.dtype == DType::bf16 ? model_.bf16 : bounds_of(w.training.dtype);
  w.strategy = Json::object();
  w.seed = kSeed;
  w.vocabulary = kLawVocabulary;
  layout.workload = w;
  layout.workload.training = training(choice, choice[kMicro] == 0 ? 0 : own_rows(choice) / micro_batches(choice));
  layout.workload.strategy = table(choice);
  return layout;
}

std::vector<Choice> LawSpace::choices(bool all) const {
  const Lawful judge = [this](const Choice& choice) { return lawful(choice); };
  return all ? all_choices(counts(), judge) : cover_pairs(counts(), judge);
}

std::vector<LawLayout> LawSpace::layouts() const {
  std::vector<LawLayout> found;
  for (const Choice& choice : choices(false)) found.push_back(layout(choice));
  return found;
}

}  // namespace quadrille
