// SPDX-License-Identifier: Apache-2.0
// Every fault of a workload on a world of this size, found before anything is allocated, all at once.
#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/error.h"
#include "core/faults.h"
#include "kernels/backend.h"
#include "models/model.h"
#include "parallelism/schedule.h"
#include "parallelism/world.h"
#include "training/engine.h"

namespace quadrille {

namespace {

std::string split_by(const Plan& plan, Axis a) {
  std::string out;
  for (int m = 0; m < plan.mesh().axes(); ++m)
    if (plan.rests_on(a, m))
      out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", plan.mesh().name(m), plan.mesh().extent(m));
  return out;
}

// Counts above the bound of a schedule are refused with the rows of a micro-batch that would do.
void check_micro_batches(const TrainingConfig& t, const Plan& plan, std::vector<std::string>& faults) {
  const std::int64_t parts = plan.parts(Axis::batch), chunks = plan.pipeline().chunks;
  const std::int64_t of_a_rank = t.batch_size / parts, number = of_a_rank / t.micro_batch, most = kMostUnits / chunks;
  if (number <= most) return;
  faults.push_back(
      fmt::format("batch_size {} ({}) / (micro_batch {} ({}) x data ranks {}) makes {} micro-batches a step: at most "
                  "{} are possible{}; "
                  "use a training.micro_batch of at least {}{}, or a batch_size of at most {}",
                  t.batch_size, t.batch_origin, t.micro_batch, t.micro_origin, parts, number, most,
                  chunks > 1 ? fmt::format(" with {} chunks", chunks) : "", (of_a_rank + most - 1) / most,
                  of_a_rank < (std::int64_t{1} << 40) ? fmt::format(" that divides {}", of_a_rank) : "",
                  most * t.micro_batch * parts));
}

void check_batch(const TrainingConfig& t, const Plan& plan, std::vector<std::string>& faults) {
  const std::int64_t parts = plan.parts(Axis::batch);
  if (t.micro_batch == 0) {
    if (t.batch_size % parts != 0)
      faults.push_back(fmt::format(
          "training.batch_size {} ({}) cannot be cut into {} equal parts (mesh {}): use a multiple of {}, "
          "or legal parts: {}",
          t.batch_size, t.batch_origin, parts, split_by(plan, Axis::batch), parts, divisors_text(t.batch_size)));
    return;
  }
  if (t.micro_batch > t.batch_size / parts) {
    faults.push_back(fmt::format(
        "batch_size {} ({}) is less than micro_batch {} ({}) x data ranks {}: use a smaller micro_batch or fewer ranks",
        t.batch_size, t.batch_origin, t.micro_batch, t.micro_origin, parts));
    return;
  }
  const std::int64_t rows = t.micro_batch * parts;
  if (t.batch_size % rows != 0)
    faults.push_back(fmt::format(
        "batch_size {} ({}) = micro_batch {} ({}) x data ranks {} (mesh {}) x micro-batches does not come out: {} / {} "
        "is not whole; use a batch_size that is a multiple of {}",
        t.batch_size, t.batch_origin, t.micro_batch, t.micro_origin, parts,
        plan.parts(Axis::batch) > 1 ? split_by(plan, Axis::batch) : "no axis for batch", t.batch_size, rows, rows));
  check_micro_batches(t, plan, faults);
}

std::string named(const Mesh& mesh, MeshAxes axes) {
  std::string out;
  for (int m = 0; m < mesh.axes(); ++m)
    if (axes & bit(m)) out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", mesh.name(m), mesh.extent(m));
  return out;
}

// A sequence that stays split through attention.
void check_context(const ModelDescription& model, const Plan& plan, std::vector<std::string>& faults) {
  const MeshAxes axes = plan.context_axes();
  if (!axes) return;
  const std::int64_t ranks = plan.mesh().extent_of(axes);
  const std::string mesh = named(plan.mesh(), axes);
  for (const auto& [key, axis, tokens, replicates] : model.sequences())
    if (plan.context().balanced && tokens % (2 * ranks) != 0)
      faults.push_back(
          fmt::format("{} {} cannot be cut into 2 x {} equal chunks (mesh {}), as balanced causal work wants: "
                      "use a multiple of {}, {}or \"context\": {{\"balanced\": false}}",
                      key, tokens, ranks, mesh, 2 * ranks,
                      tokens % 2 == 0 ? fmt::format("legal parts: {}, ", divisors_text(tokens / 2)) : ""));
  if (plan.context().attention != KeyExchange::turn) return;
  const std::int64_t of_heads = plan.parts(Axis::heads);
  for (const Requirement& r : model.requirements())
    if (r.axis == Axis::heads && r.extent % of_heads == 0 && r.extent / of_heads % ranks != 0 &&
        !(r.replicates && of_heads * ranks % r.extent == 0))
      faults.push_back(fmt::format(
          "{} {}{} cannot be turned to {} equal parts (mesh {}); legal parts: {}; or use \"gather\" or \"ring\" in "
          "\"context.attention\", which leave heads alone",
          r.key, r.extent, of_heads > 1 ? fmt::format(" / {}", of_heads) : "", ranks, mesh,
          divisors_text(r.extent / of_heads)));
}

// Where heads pass, every rank must get some.
void check_passing_heads(const ModelDescription& model, const Plan& plan, std::vector<std::string>& faults) {
  std::int64_t heads = 0, kv_heads = 0;
  for (const Requirement& r : model.requirements())
    if (r.axis == Axis::heads) (r.replicates ? kv_heads : heads) = r.extent;
  const std::string of_keys = kv_heads > 0 ? fmt::format(" with model.kv_heads {}", kv_heads) : "";
  if (kv_heads == 0) kv_heads = heads;
  const int most = plan.most_parts(Axis::heads), rest = plan.parts(Axis::heads);
  if (plan.context().attention == KeyExchange::turn && plan.context_axes()) return;  // has said so itself
  if (most == rest || heads % rest != 0 || plan.head_groups(heads, kv_heads) % most == 0) return;
  faults.push_back(
      fmt::format("model.heads {}{} cannot be dealt out to {} equal parts: heads pass to {} more "
                  "beside the {} where they rest; legal parts: {}; or take heads out of \"passing\"",
                  heads, of_keys, most, most / rest, rest, divisors_text(kv_heads)));
}

// Replicas are cut out of a weight that is whole there (Tape::spread_heads), so nothing else may cut it.
void check_replicated_heads(const ModelDescription& model, const Plan& plan, std::vector<std::string>& faults) {
  const int parts = plan.parts(Axis::heads);
  for (const Requirement& r : model.requirements())
    for (int m = 0; r.replicates && r.extent < parts && m < plan.mesh().axes(); ++m)
      if (plan.mesh().extent(m) > 1 && plan.rests_on(Axis::heads, m) && plan.rests_on(Axis::embed, m))
        faults.push_back(fmt::format(
            "{} {} is less than the {} parts of the heads, so keys and values are replicated; that cannot be on mesh "
            "axis "
            "\"{}\", where \"embed\" rests too: put embed or heads on another mesh axis, or use at least {} of them",
            r.key, r.extent, parts, plan.mesh().name(m), parts));
}

void check_schedule(const TrainingConfig& t, const Plan& plan, std::vector<std::string>& faults) {
  const std::int64_t parts = plan.parts(Axis::batch);
  if (t.batch_size / parts < std::max<std::int64_t>(1, t.micro_batch)) return;  // said already
  const std::int64_t rows = t.micro_batch > 0 ? t.micro_batch * parts : t.batch_size;
  if (t.batch_size % rows != 0 || t.batch_size / rows > kMostUnits / plan.pipeline().chunks) return;
  const std::string refusal = refusal_of(plan.pipeline().schedule, plan.stages(), t.batch_size / rows);
  if (refusal.empty()) return;
  std::string legal;  // micro-batches whose number the stages divide
  const std::int64_t of_a_rank = t.batch_size / parts, most = kMostUnits / plan.pipeline().chunks;
  int listed = 0;
  for (std::int64_t n = plan.stages(); n <= std::min(of_a_rank, most) && listed < 24; n += plan.stages())
    if (of_a_rank % n == 0) legal += fmt::format("{}{}", listed++ ? ", " : "", of_a_rank / n);
  faults.push_back(fmt::format(
      "{} (batch_size {} / (micro_batch {} x data ranks {})); {}", refusal, t.batch_size, rows / parts, parts,
      legal.empty() ? fmt::format("with this batch_size there is none: use a multiple of {}", parts * plan.stages())
                    : fmt::format("use training.micro_batch {}", legal)));
}

}  // namespace

std::vector<MeshAxis> mesh_of(const Json& strategy, int ranks) { return mesh_axes(strategy, ranks); }

namespace {

// Both would cut heads over the same mesh axis.
void check_turn_beside_passing(const Json& strategy, const Plan& plan, std::vector<std::string>& faults) {
  const Json* passing = strategy.find("passing");
  if (!passing || plan.context().attention != KeyExchange::turn) return;
  for (const Json& row : passing->items()) {
    const int m = plan.mesh().find(row.at(2).string());
    if (row.at(1).string() == name_of(Axis::heads) && m >= 0 && (plan.context_axes() & bit(m)))
      faults.push_back(
          fmt::format("{}: the row {} of \"passing\" puts heads on mesh axis \"{}\", where \"turn\" of "
                      "\"context.attention\" already puts them: take the row out, or use \"gather\" or \"ring\"",
                      row.origin(), row.text(), row.at(2).string()));
  }
}

void check_sizes(const Workload& w, const ModelDescription& model, const Plan& plan, std::vector<std::string>& faults) {
  check_batch(w.training, plan, faults);
  const std::vector<Requirement> needs = model.requirements();
  const auto said = [&](const Requirement& r) {  // keys and values of every head of their own: the heads have said so
    return r.replicates && std::any_of(needs.begin(), needs.end(), [&](const Requirement& other) {
             return !other.replicates && other.axis == r.axis && other.extent == r.extent;
           });
  };
  for (const Requirement& r : needs)
    if (const int parts = plan.parts(r.axis);
        r.extent % parts != 0 && !said(r) && !(r.replicates && parts % r.extent == 0))
      faults.push_back(fmt::format("{} {} cannot be cut into {} equal parts (mesh {}); legal parts: {}{}", r.key,
                                   r.extent, parts, split_by(plan, r.axis), divisors_text(r.extent),
                                   r.replicates ? fmt::format(", or a multiple of {}", r.extent) : ""));
  if (const int parts = plan.parts(Axis::vocab); model.vocabulary() < parts)
    faults.push_back(fmt::format("model.vocabulary {1} is less than its {0} parts (mesh {2}): use at most {1} parts",
                                 parts, model.vocabulary(), split_by(plan, Axis::vocab)));
  check_context(model, plan, faults);
  check_passing_heads(model, plan, faults);
  check_replicated_heads(model, plan, faults);
  check_schedule(w.training, plan, faults);
  check_turn_beside_passing(w.strategy, plan, faults);
}

}  // namespace

namespace {

bool has_axis(const ModelDescription& model, const Parameters& parameters, Axis a) {
  if (a == Axis::batch) return true;
  if (a == Axis::sequence) return model.tokens() > 0;
  if (a == Axis::height) {
    constexpr int kImage = 3;  // height, width, colours
    const Fields fields = model.fields();
    return std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.shape.rank() == kImage; });
  }
  return std::any_of(parameters.all().begin(), parameters.all().end(),
                     [&](const Parameter& p) { return has(p.dims, a); });
}

// Axes of other models may stand in a table, but a mesh axis that nothing else uses would only repeat all work.
void check_idle_axes(const Workload& w, const Engine& engine, std::vector<std::string>& faults) {
  const Plan& plan = engine.plan();
  const Mesh& mesh = plan.mesh();
  for (int m = 0; m < mesh.axes(); ++m) {
    if (mesh.extent(m) == 1 || ((plan.pipe() | plan.store().optimizer) & bit(m))) continue;
    std::string resting;
    bool used = false;
    for (std::size_t i = 1; i < kAxes; ++i) {
      const auto a = static_cast<Axis>(i);
      if (!plan.rests_on(a, m)) continue;
      resting += fmt::format("{}\"{}\"", resting.empty() ? "" : ", ", name_of(a));
      used = used || has_axis(engine.model(), engine.parameters(), a);
    }
    if (!used)
      faults.push_back(fmt::format(
          "{}: mesh axis \"{}\" has {} ranks, but the model \"{}\" has nothing to cut there ({} rests there): they "
          "would "
          "all do the same; put an axis of this model there, or set its extent to 1",
          w.strategy.at("mesh").origin(), mesh.name(m), mesh.extent(m), w.model.at("kind").string(), resting));
  }
}

// What is left: placements of which each is good and all together cannot be followed. The model's forward, walked once
// without numbers, says so.
void check_by_walking(const Workload& w, const Mesh& mesh, std::vector<std::string>& faults) {
  const auto device = make_counting_device();
  const auto ops = make_counting_ops({});
  Ledger ledger;
  try {
    const Engine engine(w, mesh, *device, *ops, ledger, nullptr);
    const PipelineReport p = engine.pipeline();
    const std::int64_t layers = std::accumulate(p.layers.begin(), p.layers.end(), std::int64_t{0});
    engine.memory();  // in 64 bits
    check_idle_axes(w, engine, faults);
    if (p.chunks > 1 && p.chunks > layers)
      faults.push_back(
          fmt::format("\"pipeline.chunks\" is {}, but the model has {} layers: {}", p.chunks, layers,
                      layers >= 2 ? fmt::format("use from 2 to {} chunks", layers) : "use schedule \"1f1b\""));
  } catch (const std::bad_alloc&) {
    faults.push_back(
        "memory ran out while the model was walked without numbers: use fewer layers or micro-batches, or free memory");
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (text.find("64 bits") != text.npos || text.find("out of memory") != text.npos) {  // no fault of the placements
      faults.push_back(fmt::format("the sizes of model and batch cannot be counted: {}; use smaller ones", text));
      return;
    }
    const Json* axes = w.strategy.find("axes");
    const std::string& origin = axes ? axes->origin() : w.strategy.origin();
    faults.push_back(
        fmt::format("{}: these placements do not go together: {}; list the mesh axes of a model axis in the order of "
                    "the mesh, give "
                    "model axes that meet there mesh axes of their own, or take out rows of \"passing\"",
                    origin.empty() ? "strategy" : origin, error.what()));
  }
}

}  // namespace

// Sizes can be held against a table only where model and table are good in themselves.
void check_workload(const Workload& w, int ranks) {
  std::vector<std::string> faults;
  std::unique_ptr<ModelDescription> model;
  collect_faults(faults, [&] { model = describe_model(w.model, w.vocabulary); });
  std::vector<std::string> of_mesh;
  std::vector<MeshAxis> axes;
  collect_faults(of_mesh, [&] { axes = mesh_axes(w.strategy, ranks, of_mesh); });
  faults.insert(faults.end(), of_mesh.begin(), of_mesh.end());
  WorldOptions options;
  for (const MeshAxis& axis : axes) options.ranks *= axis.extent;  // as the table says, for what else it says
  options.counting_rank = options.ranks - 1;                       // where sizes are uneven the last has least
  collect_faults(faults, [&] {
    run_counting(options, [&](std::unique_ptr<Communicator> world) {
      const Mesh mesh(std::move(world), axes);
      const Plan plan(w.strategy, mesh);
      if (!model || !of_mesh.empty()) return;
      check_sizes(w, *model, plan, faults);
      if (faults.empty()) check_by_walking(w, mesh, faults);
    });
  });
  refuse_all(faults, fmt::format("faults of this run on {} rank{}", ranks, ranks == 1 ? "" : "s"));
}

}  // namespace quadrille
