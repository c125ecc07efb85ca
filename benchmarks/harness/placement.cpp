// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/harness/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/model.h"
#include "parallelism/world.h"

namespace quadrille {

int key_value_replicas(const Experiment& experiment) {
  const auto model = describe_model(experiment.workload.model, experiment.workload.vocabulary);
  std::int64_t heads = 0, kv_heads = 0;
  for (const Requirement& need : model->requirements())
    if (need.axis == Axis::heads) (need.replicates ? kv_heads : heads) = need.extent;
  if (kv_heads == 0) return 1;
  std::int64_t groups = kv_heads;
  WorldOptions options;
  options.ranks = experiment.ranks;
  run_counting(options, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), mesh_of(experiment.workload.strategy, experiment.ranks));
    groups = Plan(experiment.workload.strategy, mesh).head_groups(heads, kv_heads);
  });
  return static_cast<int>(groups / kv_heads);
}

std::string pipeline_text(const PipelineReport& p) {
  if (p.stages == 1) return "";
  // Run r lies on stage r mod stages: a stage without any layer is one too many, an empty run beside others is a chunk.
  std::vector<std::int64_t> of_stage(static_cast<std::size_t>(p.stages));
  for (std::size_t r = 0; r < p.layers.size(); ++r) of_stage[r % of_stage.size()] += p.layers[r];
  const auto none = [](const std::vector<std::int64_t>& layers) {
    return std::find(layers.begin(), layers.end(), 0) != layers.end();
  };
  const std::string few = p.micro_batches < p.stages ? "\n  fewer micro-batches than stages: some stages always wait; "
                                                       "a smaller training.micro_batch makes more of them"
                                                     : "";
  return fmt::format(
      "  {} stages, schedule {}{}, {} micro-batch{} a step\n  layers of each {}: {}{}\n  idle {:.1f} % if all took the "
      "same time{}\n",
      p.stages, p.schedule, p.chunks > 1 ? fmt::format(" with {} runs of layers per stage", p.chunks) : "",
      p.micro_batches, p.micro_batches == 1 ? "" : "es",
      p.chunks > 1 ? fmt::format("run (run r on stage r mod {})", p.stages) : "stage", fmt::join(p.layers, ", "),
      none(of_stage)   ? "\n  a stage without layers only passes on: fewer stages would do"
      : none(p.layers) ? "\n  a run without layers only passes on: fewer chunks would do"
                       : "",
      100 * p.bubble, few);
}

std::string replicas_text(int replicas) {
  return replicas == 1 ? "" : fmt::format("  key/value heads are replicated: each lies on {} ranks\n", replicas);
}

}  // namespace quadrille
