// SPDX-License-Identifier: Apache-2.0
// `quadrille plan` and `run --dry-run`: the resolved suite with the origin of each value, then mesh, shards, memory,
// FLOPs and traffic, all counted by running the same trainer on shapes alone.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benchmarks/commands.h"
#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/experiment.h"
#include "benchmarks/harness/placement.h"
#include "benchmarks/harness/screen.h"
#include "benchmarks/harness/text.h"
#include "core/slice.h"
#include "kernels/backend.h"
#include "models/model.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

using Align = TextTable::Align;

void add_leaves(const Json& value, const std::string& path, TextTable& table) {
  if (value.is_object()) {
    for (const auto& [name, child] : value.members()) add_leaves(child, path.empty() ? name : path + "." + name, table);
    return;
  }
  constexpr std::size_t kWidest = 56;
  std::string text = value.text();
  if (text.size() > kWidest) text = text.substr(0, kWidest - 3) + "...";
  table.row({path, text, value.origin().empty() ? "default" : value.origin()});
}

std::string configuration_text(const Experiment& experiment) {
  TextTable table({{"key", Align::left}, {"value", Align::left}, {"from", Align::left}});
  add_leaves(experiment.resolved, "", table);
  return "Resolved suite\n" + table.text();
}

// Which part of each model axis a rank holds, for the axes that the strategy splits.
std::string shard_text(const Experiment& experiment, const std::vector<MeshAxis>& mesh) {
  const auto model = describe_model(experiment.workload.model, experiment.workload.vocabulary);
  std::vector<std::pair<std::string, std::int64_t>> axes = {{"batch", experiment.workload.training.batch_size}};
  if (experiment.tokens > 0) axes.emplace_back("sequence", experiment.tokens);
  for (const Requirement& need : model->requirements()) {
    const std::string key = need.key.substr(need.key.rfind('.') + 1);
    if (key == "kv_heads" && model->resolved().at("kv_heads") == model->resolved().at("heads")) continue;
    axes.emplace_back(key, need.extent);
  }
  axes.emplace_back("vocab", model->vocabulary());
  const int replicas = key_value_replicas(experiment);
  TextTable table({{"axis", Align::left}, {"extent"}, {"split over", Align::left}, {"a rank holds"}});
  for (const auto& [name, extent] : axes) {
    const std::string axis = name == "kv_heads" ? "heads" : name;
    const int parts = extent_of(experiment.workload.strategy, axis, mesh);
    std::string over;
    for (const std::string& name : mesh_axes_of(experiment.workload.strategy, axis))
      over += (over.empty() ? "" : "+") + name;
    if (name == "kv_heads" && replicas > 1) {
      table.row({name, text_grouped(extent), over.empty() ? "nothing at rest" : over,
                 fmt::format("1, the same on {} ranks", replicas)});
      continue;
    }
    const std::int64_t most = part({0, extent}, parts, 0).count, least = part({0, extent}, parts, parts - 1).count;
    table.row({name, text_grouped(extent), over.empty() ? "nothing" : over,
               most == least ? text_grouped(most) : fmt::format("{} or {}", text_grouped(most), text_grouped(least))});
  }
  return "Shards\n" + table.text();
}

std::string pipeline_section(const PipelineReport& p) {
  return p.stages == 1 ? "" : "Pipeline\n" + pipeline_text(p) + "\n";
}

// What the strategy keeps in parts between uses.
std::string store_text(const Json& strategy) {
  std::string text;
  for (const char* what : {"weights", "gradients", "optimizer"})
    if (const auto over = mesh_axes_of(strategy, what, "store"); !over.empty())
      text += fmt::format("{}{} over {}", text.empty() ? "" : ", ", what, fmt::join(over, "+"));
  return text.empty() ? "" : "Stored in parts: " + text + "\n\n";
}

std::string memory_text(const std::vector<std::pair<int, Forecast>>& ranks) {
  TextTable table({{"rank"}, {"weights"}, {"gradients"}, {"optimizer"}, {"activations"}, {"scratch"}, {"sum"}});
  for (const auto& [rank, forecast] : ranks) {
    const MemoryReport& m = forecast.memory;
    std::vector<std::string> cells = {fmt::format("{}", rank)};
    for (const std::int64_t bytes : {m.weights, m.gradients, m.optimizer, m.activations, m.scratch, m.total()})
      cells.push_back(text_bytes(static_cast<double>(bytes)));
    table.row(cells);
  }
  return "Memory forecast, per rank\n" + table.text();
}

std::string flops_text(const Forecast& f, int ranks) {
  TextTable table({{"", Align::left}, {"", Align::right}, {"", Align::left}});
  const Work& w = f.step_work;
  table.row({"model, full attention", text_scaled(f.model_flops_full, "FLOP"), "of one step, all ranks"});
  table.row({"model, causal attention", text_scaled(f.model_flops_causal, "FLOP"), ""});
  table.row({"executed by rank 0", text_scaled(w.executed(), "FLOP"),
             fmt::format("useful {}, recomputed {}, repeated {}, padded {}; skipped {}", text_scaled(w.useful, ""),
                         text_scaled(w.recomputed, ""), text_scaled(w.repeated, ""), text_scaled(w.padded, ""),
                         text_scaled(w.skipped, ""))});
  return fmt::format("FLOPs of a step ({} parameters, {} rank{})\n", text_grouped(f.parameters), ranks,
                     ranks == 1 ? "" : "s") +
         table.text();
}

using Messages = std::map<Ledger::MessageKey, Traffic>;

std::string traffic_table(const Messages& messages, const std::string& whose) {
  TextTable table({{"mesh axes", Align::left}, {"message", Align::left}, {"calls"}, {"bytes sent"}});
  for (const auto& [key, traffic] : messages)
    table.row({key.first, key.second, text_grouped(traffic.calls), text_bytes(traffic.bytes)});
  return fmt::format("Traffic of a step, {}\n", whose) + table.text();
}

bool same_traffic(const Messages& a, const Messages& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.calls == y.second.calls && x.second.bytes == y.second.bytes;
  });
}

// Of the first rank of each stage; stages of equal traffic share a table.
std::string traffic_text(const std::vector<std::pair<int, Messages>>& of_stages) {
  std::string text;
  for (std::size_t k = 0; k < of_stages.size(); ++k) {
    const auto same = [&](const auto& other) { return same_traffic(other.second, of_stages[k].second); };
    if (std::any_of(of_stages.begin(), of_stages.begin() + static_cast<std::ptrdiff_t>(k), same)) continue;
    std::vector<int> stages;
    for (std::size_t j = k; j < of_stages.size(); ++j)
      if (same(of_stages[j])) stages.push_back(static_cast<int>(j));
    const std::string whose = of_stages.size() == 1 ? "rank 0"
                                                    : fmt::format("stage{} {} (rank {})", stages.size() == 1 ? "" : "s",
                                                                  text_runs(stages), of_stages[k].first);
    text += of_stages[k].second.empty() ? fmt::format("Traffic of a step, {}: none\n", whose)
                                        : traffic_table(of_stages[k].second, whose);
  }
  return text;
}

// The first rank of each stage.
std::vector<int> stage_ranks(const Json& strategy, const std::vector<MeshAxis>& mesh) {
  const std::string axis = pipeline_axis_of(strategy);
  std::vector<int> ranks = {0};
  for (std::size_t m = 0, inner = 1; m < mesh.size(); ++m) {
    if (mesh[m].name != axis) continue;
    for (std::size_t k = m + 1; k < mesh.size(); ++k) inner *= static_cast<std::size_t>(mesh[k].extent);
    for (int stage = 1; stage < mesh[m].extent; ++stage) ranks.push_back(stage * static_cast<int>(inner));
  }
  return ranks;
}

}  // namespace

int plan_command(const RunOptions& options) {
  RunOptions planned = options;
  planned.dry_run = true;
  if (!options.world.empty()) world_named(options.world);  // throws when there is none of this name
  if (!speaks_for_launcher()) return exit_code::kGood;     // one of its processes is enough
  const int ranks = options.ranks.value_or(options.world == "threads" ? 1 : launcher_from_environment().ranks);
  Experiment experiment = resolve(planned, ranks, options.world.empty() ? "threads" : options.world);
  experiment.workload.threads = options.threads.value_or(1);
  const Backend& backend = backend_named(experiment.backend);
  const std::vector<MeshAxis> mesh = mesh_of(experiment.workload.strategy, ranks);

  std::vector<std::pair<int, Forecast>> forecasts;
  constexpr int kAllOf = 16;  // of more ranks the first and the last speak for all
  for (int rank = 0; rank < ranks; ++rank)
    if (ranks <= kAllOf || rank == 0 || rank == ranks - 1)
      forecasts.emplace_back(rank, forecast(experiment.workload, backend, ranks, rank));

  std::vector<std::pair<int, Messages>> of_stages;
  for (const int rank : stage_ranks(experiment.workload.strategy, mesh)) {
    const auto known = std::find_if(forecasts.begin(), forecasts.end(), [&](const auto& f) { return f.first == rank; });
    of_stages.emplace_back(
        rank,
        (known != forecasts.end() ? known->second : forecast(experiment.workload, backend, ranks, rank)).step_messages);
  }

  std::vector<std::pair<std::string, int>> axes;
  axes.reserve(mesh.size());
  for (const MeshAxis& axis : mesh) axes.emplace_back(axis.name, axis.extent);
  fmt::print("{}   plan of {}{}{}\n", program_name(), experiment.suite, experiment.description.empty() ? "" : ": ",
             experiment.description);
  fmt::print("  {} rank{}, strategy {}, mesh {}, back end {}\n\n", ranks, ranks == 1 ? "" : "s", experiment.strategy,
             mesh_text(axes), experiment.backend);
  if (const std::string note = strategy_note(experiment.workload.strategy); !note.empty())
    experiment.notes.push_back(note);
  for (const std::string& note : forecasts.front().second.notes) experiment.notes.push_back(note);
  for (const std::string& note : experiment.notes) fmt::print("  note: {}\n\n", note);
  fmt::print("{}\n{}\n{}{}{}\n{}\n{}\n", configuration_text(experiment), shard_text(experiment, mesh),
             store_text(experiment.workload.strategy), pipeline_section(forecasts.front().second.pipeline),
             memory_text(forecasts), flops_text(forecasts.front().second, ranks), traffic_text(of_stages));
  fmt::print("Nothing was trained. All figures are counted, none is measured.\n");
  return exit_code::kGood;
}

}  // namespace quadrille
