// SPDX-License-Identifier: Apache-2.0
#include "parallelism/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/faults.h"

namespace quadrille {

namespace {

constexpr std::array<std::string_view, kAxes> kAxisNames = {"none",  "batch", "sequence", "embed",
                                                            "heads", "mlp",   "vocab",    "height"};

// What a list says twice was meant to be something else.
void refuse_twice(const Json& list, std::string_view key, std::vector<std::string>& faults) {
  const Json::Array& items = list.items();
  for (std::size_t i = 0; i < items.size(); ++i)
    if (std::find(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(i), items[i]) !=
        items.begin() + static_cast<std::ptrdiff_t>(i))
      faults.push_back(
          fmt::format("{}: \"{}\" names {} twice: leave one out", items[i].origin(), key, items[i].text()));
}

// A list under a key of the strategy: the message of a wrong type names the key.
void require_list(const Json& value, std::string_view key) {
  require(value.is_array(), "{}: \"{}\" is {}, wanted a list", value.origin(), key, value.kind());
}

}  // namespace

std::string_view name_of(Axis a) { return kAxisNames[static_cast<std::size_t>(a)]; }

Axis axis_from(const Json& given) {
  const std::string& name = given.string();
  for (std::size_t i = 1; i < kAxisNames.size(); ++i)
    if (kAxisNames[i] == name) return static_cast<Axis>(i);
  const std::vector<std::string> known(kAxisNames.begin() + 1, kAxisNames.end());
  const std::string near = nearest(name, known);
  fail("{}: unknown model axis \"{}\"{}: use batch, sequence, height, embed, heads, mlp or vocab", given.origin(), name,
       near.empty() ? "" : fmt::format(" (nearest: \"{}\")", near));
}

std::string text_of(State s) {
  switch (s.kind) {
    case Kind::same:
      return "same";
    case Kind::copy:
      return "copy";
    case Kind::debt:
      return "debt";
    case Kind::split:
      break;
  }
  return fmt::format("split({})", name_of(s.axis));
}

bool has(const Dims& dims, Axis a) {
  return std::any_of(dims.begin(), dims.end(), [a](Dim d) { return d.axis == a; });
}

int dim_of(const Dims& dims, Axis a) {
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (dims[d].axis == a) return static_cast<int>(d);
  fail("a value without a dim \"{}\" was to be cut along it", name_of(a));
}

Plan::Plan(const Json& table, const Mesh& mesh) : mesh_(mesh), may_gather_{Axis::sequence} {
  std::vector<std::string> faults;
  Reader reader(table, "strategy");
  reader.string("name", "");
  reader.string("description", "");
  if (const Json* mesh_axes = reader.value("mesh")) mesh_at_ = mesh_axes->origin();
  if (const Json* axes = reader.value("axes")) collect_faults(faults, [&] { read_axes(*axes, faults); });
  if (const Json* passing = reader.value("passing")) collect_faults(faults, [&] { read_passing(*passing, faults); });
  if (const Json* gather = reader.value("may_gather"))
    collect_faults(faults, [&] {
      require_list(*gather, "may_gather");
      refuse_twice(*gather, "may_gather", faults);
      for (const Json& name : gather->items()) collect_faults(faults, [&] { may_gather_.push_back(axis_from(name)); });
    });
  collect_faults(faults, [&] { read_context(reader.value("context"), faults); });
  const Json *store = reader.value("store"), *pipeline = reader.value("pipeline"), *overlap = reader.value("overlap");
  if (store) collect_faults(faults, [&] { read_store(*store, faults); });
  if (pipeline) collect_faults(faults, [&] { read_pipeline(*pipeline, faults); });
  if (overlap) collect_faults(faults, [&] { read_overlap(*overlap, faults); });
  collect_faults(faults, [&] {
    sums_axis_by_axis_ = reader.choice("sum", {"together", "axis_by_axis"}, "together") == "axis_by_axis";
  });
  // With online softmax attention keeps nothing that a selective recomputation would drop: it equals "none".
  collect_faults(faults, [&] {
    recomputes_ = reader.choice("recompute", {"none", "selective", "full"}, "none") == "full";
  });
  collect_faults(faults, [&] { reader.done(); });
  check(faults);
  refuse_all(faults, "faults of the strategy");
}

MeshAxes Plan::read_store_axes(const Json* list, std::vector<std::string>& faults) {
  MeshAxes axes = 0;
  if (!list) return axes;
  const Json::Array one = {*list};
  for (const Json& name : list->is_array() ? list->items() : one) {
    const int m = known_mesh_axis(name, faults);
    if (m >= 0 && (axes & bit(m)))
      faults.push_back(fmt::format("{}: \"store\" names mesh axis \"{}\" twice", name.origin(), name.string()));
    if (m >= 0) axes |= bit(m);
  }
  return axes;
}

void Plan::read_store(const Json& object, std::vector<std::string>& faults) {
  Reader reader(object, "strategy.store");
  store_at_ = object.origin();
  store_.weights = read_store_axes(reader.value("weights"), faults);
  store_.gradients = read_store_axes(reader.value("gradients"), faults);
  store_.optimizer = read_store_axes(reader.value("optimizer"), faults);
  collect_faults(faults, [&] { store_.keep_gathered = reader.boolean("keep_gathered", false); });
  collect_faults(faults, [&] { reader.done(); });
  if (store_.keep_gathered && store_.weights == 0)
    faults.push_back(
        fmt::format("{}: \"store.keep_gathered\" is true, but \"store.weights\" names no mesh axis, so nothing is "
                    "gathered: name one there, or leave keep_gathered out",
                    object.origin()));
  const auto nests = [&](MeshAxes inner, const char* inner_name, MeshAxes outer, const char* outer_name) {
    if (const MeshAxes missing = inner & ~outer)
      faults.push_back(
          fmt::format("{}: \"store.{}\" is cut over {} but \"store.{}\" is not: each list must contain the one before "
                      "(weights, gradients, optimizer); add {} to \"store.{}\"",
                      object.origin(), inner_name, mesh_.names(inner), outer_name, mesh_.names(missing), outer_name));
  };
  nests(store_.weights, "weights", store_.gradients, "gradients");
  nests(store_.gradients, "gradients", store_.optimizer, "optimizer");
}

void Plan::read_pipeline(const Json& object, std::vector<std::string>& faults) {
  Reader reader(object, "strategy.pipeline");
  const Json* given = reader.value("axis");
  pipeline_.axis = given ? known_mesh_axis(*given, faults) : mesh_.find("pipe");
  if (!given && pipeline_.axis < 0)
    faults.push_back(
        fmt::format("{}: the mesh has no axis \"pipe\": add one, or name the mesh axis of the stages "
                    "in \"pipeline.axis\"",
                    object.origin()));
  std::string schedule = "1f1b";
  collect_faults(faults, [&] { schedule = reader.choice("schedule", {"gpipe", "1f1b", "interleaved"}, "1f1b"); });
  pipeline_.schedule = schedule == "gpipe"  ? Schedule::gpipe
                       : schedule == "1f1b" ? Schedule::one_forward_one_backward
                                            : Schedule::interleaved;
  const bool interleaved = pipeline_.schedule == Schedule::interleaved;
  std::int64_t chunks = interleaved ? 2 : 1;
  collect_faults(faults, [&] { chunks = reader.integer("chunks", chunks); });
  collect_faults(faults, [&] { reader.done(); });
  if (interleaved ? chunks < 2 : chunks != 1)
    faults.push_back(fmt::format("{}: \"pipeline.chunks\" is {} with schedule \"{}\": {}", object.origin(), chunks,
                                 schedule,
                                 interleaved ? "an interleaved schedule needs 2 or more, or use \"1f1b\""
                                             : "only \"interleaved\" has more than 1"));
  constexpr std::int64_t kMostChunks = 1024;
  if (chunks > kMostChunks)
    faults.push_back(fmt::format("{}: \"pipeline.chunks\" is {}: at most {} runs of layers per rank are possible",
                                 object.origin(), chunks, kMostChunks));
  pipeline_.chunks = static_cast<int>(std::clamp<std::int64_t>(chunks, 1, kMostChunks));
  if (pipeline_.axis >= 0 && mesh_.extent(pipeline_.axis) == 1)
    pipeline_ = {};  // one stage: nothing to take turns with
}

void Plan::read_overlap(const Json& list, std::vector<std::string>& faults) {
  const auto read = [&](const Json& name) {
    const std::string& what = name.string();
    if (what == "input_gradient")
      overlap_.input_gradient = true;
    else if (what == "reduce_scatter")
      overlap_.reduce_scatter = true;
    else if (what == "all_gather")
      overlap_.all_gather = true;
    else if (what == "send")
      overlap_.send = true;
    else
      fail(
          "{}: \"overlap\" names \"{}\": known are \"input_gradient\", \"reduce_scatter\", \"all_gather\" and "
          "\"send\"",
          name.origin(), what);
  };
  require_list(list, "overlap");
  refuse_twice(list, "overlap", faults);
  for (const Json& name : list.items()) collect_faults(faults, [&] { read(name); });
}

// -1, and a fault, unless the mesh has it.
int Plan::known_mesh_axis(const Json& name, std::vector<std::string>& faults) {
  int m = -1;
  collect_faults(faults, [&] {
    m = mesh_.find(name.string());
    if (m >= 0) return;
    std::vector<std::string> known;
    known.reserve(static_cast<std::size_t>(mesh_.axes()));
    for (int k = 0; k < mesh_.axes(); ++k) known.push_back(mesh_.name(k));
    const std::string near = nearest(name.string(), known);
    if (!near.empty()) meant_ |= bit(mesh_.find(near));
    fail("{}: the mesh has no axis \"{}\"{}; it has {}", name.origin(), name.string(),
         near.empty() ? "" : fmt::format(" (nearest: \"{}\")", near),
         known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  });
  return m;
}

void Plan::read_axes(const Json& axes, std::vector<std::string>& faults) {
  for (const auto& [key, where] : axes.members()) {
    Axis a = Axis::none;
    collect_faults(faults, [&, &name = key, &at = where] { a = axis_from(Json(name).from(at.origin())); });
    const Json::Array one = {where};
    for (const Json& name : where.is_array() ? where.items() : one) {
      const int m = known_mesh_axis(name, faults);
      if (m < 0) continue;
      if (a == Axis::none) {
        meant_ |= bit(m);
        continue;
      }
      named_at_[static_cast<std::size_t>(a)] = name.origin();
      auto& order = rest_[static_cast<std::size_t>(a)];
      if (std::find(order.begin(), order.end(), m) != order.end())
        faults.push_back(
            fmt::format("{}: axis \"{}\" names mesh axis \"{}\" twice", name.origin(), key, name.string()));
      else
        order.push_back(m);
    }
  }
}

void Plan::read_passing(const Json& passing, std::vector<std::string>& faults) {
  const auto read = [&](const Json& row) {
    require(row.is_array() && row.size() == 3, "{}: a row of \"passing\" is [made along, axis, mesh axis], not {}",
            row.origin(), row.text());
    const int m = known_mesh_axis(row.at(2), faults);
    Axis made = Axis::none, axis = Axis::none;
    collect_faults(faults, [&] { made = axis_from(row.at(std::size_t{0})); });
    collect_faults(faults, [&] { axis = axis_from(row.at(1)); });
    if (m < 0 || made == Axis::none || axis == Axis::none) return;
    passing_.push_back({made, axis, m, row.origin()});
    may_gather_.push_back(axis);
  };
  require_list(passing, "passing");
  refuse_twice(passing, "passing", faults);
  for (const Json& row : passing.items()) collect_faults(faults, [&] { read(row); });
}

bool Plan::rests_on(Axis a, int m) const {
  const auto& order = rest_[static_cast<std::size_t>(a)];
  return std::find(order.begin(), order.end(), m) != order.end();
}

bool Plan::may_gather(Axis a) const {
  return std::find(may_gather_.begin(), may_gather_.end(), a) != may_gather_.end();
}

int Plan::parts(Axis a) const {
  int n = 1;
  for (int m : rest_[static_cast<std::size_t>(a)]) n *= mesh_.extent(m);
  return n;
}

int Plan::most_parts(Axis a) const {
  int n = 1;
  for (int m : nesting(a)) n *= mesh_.extent(m);
  return n;
}

std::int64_t Plan::head_groups(std::int64_t heads, std::int64_t kv_heads) const {
  for (const std::int64_t n : {most_parts(Axis::heads), parts(Axis::heads)}) {
    if (kv_heads % n == 0) return kv_heads;
    if (n % kv_heads == 0 && heads % n == 0) return n;
  }
  return kv_heads;
}

std::vector<int> Plan::nesting(Axis a) const {
  std::vector<int> order = rest_[static_cast<std::size_t>(a)];
  for (const Passing& p : passing_)
    if (p.axis == a && std::find(order.begin(), order.end(), p.mesh_axis) == order.end()) order.push_back(p.mesh_axis);
  if (a == Axis::heads && context_.attention == KeyExchange::turn) {  // what is undone first is innermost there
    const auto& sequence = rest_[static_cast<std::size_t>(Axis::sequence)];
    for (auto m = sequence.rbegin(); m != sequence.rend(); ++m)
      if (context_axes() & bit(*m)) order.push_back(*m);
  }
  return order;
}

Slice Plan::slice(Dim dim, const States& states, int mesh_axis, int place) const {
  Slice mine{0, dim.extent};
  if (dim.axis == Axis::none) return mine;
  for (int m : nesting(dim.axis))
    if (states[static_cast<std::size_t>(m)] == State{Kind::split, dim.axis})
      mine = part(mine, mesh_.extent(m), m == mesh_axis ? place : mesh_.at(m));
  return mine;
}

Shape Plan::shape(const Dims& dims, const States& states, int mesh_axis, int place) const {
  std::vector<std::int64_t> extents;
  for (Dim d : dims) extents.push_back(slice(d, states, mesh_axis, place).count);
  return Shape(std::span<const std::int64_t>(extents));
}

States Plan::at_rest(const Dims& dims) const {
  States states;
  for (Dim d : dims) {
    if (d.axis == Axis::none) continue;
    for (int m : rest_[static_cast<std::size_t>(d.axis)]) {
      if (mesh_.extent(m) == 1) continue;
      State& s = states[static_cast<std::size_t>(m)];
      require(s.kind == Kind::same, "two axes of one value on mesh axis \"{}\": \"{}\" and \"{}\"", mesh_.name(m),
              name_of(s.axis), name_of(d.axis));
      s = {Kind::split, d.axis};
    }
  }
  return states;
}

States Plan::of_parameter(Dims& dims) const {
  States states;
  for (Dim& d : dims) {
    if (d.axis == Axis::none) continue;
    const auto& order = rest_[static_cast<std::size_t>(d.axis)];
    // Of an axis that two dims have one is cut, wherever it is cut later.
    const bool twice = std::any_of(dims.data(), &d, [&](const Dim& before) { return before.axis == d.axis; });
    const bool clash = std::any_of(order.begin(), order.end(), [&](int m) {
      return mesh_.extent(m) > 1 && states[static_cast<std::size_t>(m)].kind != Kind::same;
    });
    if (twice || clash) {
      d.axis = Axis::none;
      continue;
    }
    for (int m : order)
      if (mesh_.extent(m) > 1) states[static_cast<std::size_t>(m)] = {Kind::split, d.axis};
  }
  return states;
}

bool Plan::innermost(Axis a, int m, const States& states) const {
  bool after = false;
  for (int k : nesting(a)) {
    if (after && states[static_cast<std::size_t>(k)] == State{Kind::split, a}) return false;
    after |= k == m;
  }
  return after;
}

std::optional<Axis> Plan::scatter_target(const Dims& dims, const States& states, int m) const {
  const auto fits = [&](Axis a) { return has(dims, a) && innermost(a, m, states); };
  for (Axis a : {Axis::batch, Axis::sequence, Axis::embed, Axis::heads, Axis::mlp, Axis::vocab})
    if (rests_on(a, m) && fits(a)) return a;
  for (const Passing& p : passing_)
    if (p.mesh_axis == m && has(dims, p.made) && fits(p.axis)) return p.axis;
  return {};
}

}  // namespace quadrille
