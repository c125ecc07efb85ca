// SPDX-License-Identifier: Apache-2.0
#include "parallelism/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/faults.h"

namespace quadrille {

namespace {

constexpr std::array<std::string_view, 7> kAxisNames = {"none", "batch", "sequence", "embed", "heads", "mlp", "vocab"};

}  // namespace

std::string_view name_of(Axis a) { return kAxisNames[static_cast<std::size_t>(a)]; }

Axis axis_from(std::string_view name) {
  for (std::size_t i = 1; i < kAxisNames.size(); ++i)
    if (kAxisNames[i] == name) return static_cast<Axis>(i);
  const std::vector<std::string> known(kAxisNames.begin() + 1, kAxisNames.end());
  const std::string near = nearest(name, known);
  fail("unknown model axis \"{}\"{}: use batch, sequence, embed, heads, mlp or vocab", name,
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

std::vector<MeshAxis> mesh_axes(const Json& table, int ranks) {
  std::vector<MeshAxis> axes;
  const Json* mesh = table.find("mesh");
  if (!mesh) {
    require(ranks == 1, "the strategy has no \"mesh\" but there are {} ranks: add e.g. \"mesh\": [[\"data\", \"*\"]]",
            ranks);
    return axes;
  }
  std::int64_t known = 1;
  int open = -1;
  for (const Json& edge : mesh->items()) {
    require(edge.is_array() && edge.size() == 2, "{}: a mesh edge is [\"name\", extent], not {}", edge.origin(),
            edge.text());
    const Json& extent = edge.at(1);
    if (extent.is_string() && extent.string() == "*") {
      require(open < 0, "{}: two extents of the mesh are \"*\": at most one may take what remains", edge.origin());
      open = static_cast<int>(axes.size());
      axes.push_back({edge.at(0).string(), 1});
      continue;
    }
    const std::int64_t n = extent.integer();
    require(n >= 1 && n <= 1 << 24, "{}: the extent of mesh axis \"{}\" is {}: it must be a positive count of ranks",
            edge.origin(), edge.at(0).string(), n);
    known *= n;
    require(known <= 1 << 24, "{}: with axis \"{}\" the mesh has {} places: at most {} ranks can be counted",
            edge.origin(), edge.at(0).string(), known, 1 << 24);
    axes.push_back({edge.at(0).string(), static_cast<int>(n)});
  }
  const auto extents = [&] {
    std::string out;
    for (std::size_t i = 0; i < axes.size(); ++i)
      out += fmt::format("{}{} {}", i ? " x " : "", axes[i].name,
                         static_cast<int>(i) == open ? "*" : std::to_string(axes[i].extent));
    return out;
  };
  if (open >= 0) {
    require(ranks % known == 0,
            "the mesh {} cannot be laid on {} ranks: {} is not a multiple of {}; use --ranks {} or change the extents",
            extents(), ranks, ranks, known, known);
    axes[static_cast<std::size_t>(open)].extent = static_cast<int>(ranks / known);
  } else {
    require(
        known == ranks,
        "the mesh {} has {} places but there are {} ranks: use --ranks {} or change the extents (--set mesh.NAME=N)",
        extents(), known, ranks, known);
  }
  return axes;
}

Plan::Plan(const Json& table, const Mesh& mesh) : mesh_(mesh), may_gather_{Axis::sequence} {
  std::vector<std::string> faults;
  Reader reader(table, "strategy");
  reader.string("name", "");
  reader.string("description", "");
  reader.value("mesh");
  if (const Json* axes = reader.value("axes")) read_axes(*axes, faults);
  if (const Json* passing = reader.value("passing")) read_passing(*passing, faults);
  if (const Json* gather = reader.value("may_gather"))
    for (const Json& name : gather->items())
      collect_faults(faults, [&] { may_gather_.push_back(axis_from(name.string())); });
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
  check_pipeline_alone(faults);
  check_use(faults);
  refuse_all(faults, "faults of the strategy");
}

MeshAxes Plan::read_store_axes(const Json* list, std::vector<std::string>& faults) const {
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
  store_.weights = read_store_axes(reader.value("weights"), faults);
  store_.gradients = read_store_axes(reader.value("gradients"), faults);
  store_.optimizer = read_store_axes(reader.value("optimizer"), faults);
  store_.keep_gathered = reader.boolean("keep_gathered", false);
  reader.done();
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
  if (object.size() == 0) return;
  Reader reader(object, "strategy.pipeline");
  pipeline_.axis = mesh_.find(reader.string("axis", "pipe"));
  if (pipeline_.axis < 0) {
    const Json* given = object.find("axis");
    if (given)
      known_mesh_axis(*given, faults);
    else
      faults.push_back(
          fmt::format("{}: the mesh has no axis \"pipe\": add one, or name the mesh axis of the stages "
                      "in \"pipeline.axis\"",
                      object.origin()));
  }
  const std::string schedule = reader.choice("schedule", {"gpipe", "1f1b", "interleaved"}, "1f1b");
  pipeline_.schedule = schedule == "gpipe"  ? Schedule::gpipe
                       : schedule == "1f1b" ? Schedule::one_forward_one_backward
                                            : Schedule::interleaved;
  const bool interleaved = pipeline_.schedule == Schedule::interleaved;
  const std::int64_t chunks = reader.integer("chunks", interleaved ? 2 : 1);
  reader.done();
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
  for (const Json& name : list.items()) {
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
      faults.push_back(fmt::format(
          "{}: \"overlap\" names \"{}\": known are \"input_gradient\", \"reduce_scatter\", \"all_gather\" and \"send\"",
          name.origin(), what));
  }
}

int Plan::known_mesh_axis(const Json& name, std::vector<std::string>& faults) const {
  const int m = mesh_.find(name.string());
  if (m >= 0) return m;
  std::vector<std::string> known;
  known.reserve(static_cast<std::size_t>(mesh_.axes()));
  for (int k = 0; k < mesh_.axes(); ++k) known.push_back(mesh_.name(k));
  const std::string near = nearest(name.string(), known);
  faults.push_back(fmt::format("{}: the mesh has no axis \"{}\"{}; it has {}", name.origin(), name.string(),
                               near.empty() ? "" : fmt::format(" (nearest: \"{}\")", near),
                               known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  return -1;
}

void Plan::read_axes(const Json& axes, std::vector<std::string>& faults) {
  for (const auto& [key, where] : axes.members()) {
    Axis a = Axis::none;
    collect_faults(faults, [&, &name = key] { a = axis_from(name); });
    if (a == Axis::none) continue;
    const Json::Array one = {where};
    for (const Json& name : where.is_array() ? where.items() : one) {
      const int m = known_mesh_axis(name, faults);
      if (m < 0) continue;
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
  for (const Json& row : passing.items()) {
    require(row.is_array() && row.size() == 3, "{}: a row of \"passing\" is [made along, axis, mesh axis], not {}",
            row.origin(), row.text());
    const int m = known_mesh_axis(row.at(2), faults);
    if (m < 0) continue;
    collect_faults(faults, [&] {
      passing_.push_back({axis_from(row.at(std::size_t{0}).string()), axis_from(row.at(1).string()), m});
      may_gather_.push_back(passing_.back().axis);
    });
  }
}

// Ranks of different stages hold different layers: nothing else may be cut over them.
void Plan::check_pipeline_alone(std::vector<std::string>& faults) const {
  if (pipeline_.axis < 0) return;
  const auto refuse = [&](const std::string& what) {
    faults.push_back(fmt::format("mesh axis \"{}\" carries the pipeline's stages and {}: give it an axis of its own",
                                 mesh_.name(pipeline_.axis), what));
  };
  for (std::size_t a = 1; a < rest_.size(); ++a)
    if (rests_on(static_cast<Axis>(a), pipeline_.axis)) refuse(fmt::format("model axis \"{}\"", kAxisNames[a]));
  for (const Passing& p : passing_)
    if (p.mesh_axis == pipeline_.axis) refuse("a row of \"passing\"");
  if (store_.optimizer & pipe()) refuse("a list of \"store\"");
}

// Values at rest are [batch, sequence, embed]: two of these on one mesh axis would be two axes of one value there.
void Plan::check_use(std::vector<std::string>& faults) const {
  const std::vector<int>& embed = rest_[static_cast<std::size_t>(Axis::embed)];
  for (int m = 0; m < mesh_.axes(); ++m) {
    if (mesh_.extent(m) == 1) continue;
    std::string resting;
    int of_values = 0;
    bool used = m == pipeline_.axis || (store_.optimizer & bit(m));  // a debt only passes where something rests
    for (Axis a : {Axis::batch, Axis::sequence, Axis::embed, Axis::heads, Axis::mlp, Axis::vocab}) {
      if (!rests_on(a, m)) continue;
      used = true;
      if (a == Axis::batch || a == Axis::sequence || a == Axis::embed) {
        resting += fmt::format("{}\"{}\"", of_values ? " and " : "", name_of(a));
        ++of_values;
      }
    }
    if (of_values > 1)
      faults.push_back(fmt::format(
          "two axes of one value at rest on mesh axis \"{}\": {}; a value [batch, sequence, embed] may have one there",
          mesh_.name(m), resting));
    if (rests_on(Axis::batch, m) && (rests_on(Axis::heads, m) || rests_on(Axis::mlp, m) || rests_on(Axis::vocab, m)) &&
        !may_gather(Axis::batch))
      faults.push_back(
          fmt::format("two different axes meet on mesh axis \"{}\": \"batch\" with heads, mlp or vocab; put batch on "
                      "an axis of its own",
                      mesh_.name(m)));
    const bool others = rests_on(Axis::heads, m) || rests_on(Axis::mlp, m) || rests_on(Axis::vocab, m);
    if (rests_on(Axis::embed, m) && others && !may_gather(Axis::embed))
      faults.push_back(fmt::format(
          "two different axes meet on mesh axis \"{}\": \"embed\" with heads, mlp or vocab; put embed on another "
          "mesh axis, or list it in \"may_gather\"",
          mesh_.name(m)));
    const auto edges = std::count_if(embed.begin(), embed.end(), [this](int k) { return mesh_.extent(k) > 1; });
    for (Axis other : {Axis::heads, Axis::mlp, Axis::vocab})
      if (edges > 1 && rests_on(Axis::embed, m) && rests_on(other, m))
        faults.push_back(
            fmt::format("\"embed\" is cut over several mesh axes, among them \"{}\", where \"{}\" rests too: a weight "
                        "of both would be "
                        "cut over none of them; put one of the two on another mesh axis",
                        mesh_.name(m), name_of(other)));
    if (!used)
      faults.push_back(
          fmt::format("mesh axis \"{}\" has {} ranks but nothing uses it: name it in \"axes\", \"store\" or "
                      "\"pipeline\", or set its extent to 1",
                      mesh_.name(m), mesh_.extent(m)));
  }
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
    const bool clash = std::any_of(order.begin(), order.end(), [&](int m) {
      return mesh_.extent(m) > 1 && states[static_cast<std::size_t>(m)].kind != Kind::same;
    });
    if (clash) {
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
