// SPDX-License-Identifier: Apache-2.0
// What the counting tests share: a GPT of any size that is never allocated, its forecast, and how to read messages.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "training/trainer.h"

namespace quadrille::toy {

// A GPT whose every dim divides by 8. n: numbers.
struct Gpt {
  std::int64_t layers = 3, embed = 64, heads = 8, kv_heads = 8, mlp = 256, tokens = 32, vocabulary = 96, batch = 16;
  bool llama = false;

  Workload workload(const std::string& table, Json training = Json::object()) const {
    Workload w;
    w.model = parse_json(llama ? R"({"kind": "gpt", "positions": "rotary", "norm": "rms", "activation": "gated_silu",
                                     "bias": false, "tied_head": false})"
                               : R"({"kind": "gpt"})",
                         "model");
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"layers", layers}, {"embed", embed},   {"heads", heads},          {"kv_heads", kv_heads},
        {"mlp", mlp},       {"tokens", tokens}, {"vocabulary", vocabulary}};
    for (const auto& [key, value] : sizes) w.model.set(key, value);
    training.set("batch_size", batch);
    training.set("steps", 1);
    training.set("rate", parse_json(R"({"peak": 0.1})", "rate"));
    Json resolved;
    w.training = read_training(training, resolved);
    w.vocabulary = vocabulary;
    w.strategy = parse_json(table, "table");
    return w;
  }
  // Parameters of one rank when heads, mlp and vocabulary are cut in x parts.
  double parameters(std::int64_t x) const {
    const double h = static_cast<double>(embed), f = static_cast<double>(mlp), v = static_cast<double>(vocabulary);
    const double parts = static_cast<double>(x), l = static_cast<double>(layers);
    const double keys = 2 * h * static_cast<double>(kv_heads) / static_cast<double>(heads);
    if (llama) return 2 * v * h / parts + l * (2 * h + (h * (h + keys) + h * h + 3 * h * f) / parts) + h;
    const double layer =
        4 * h + (h * (h + keys) + h + keys) / parts + h * h / parts + h + (h * f + f) / parts + h * f / parts + h;
    return v * h / parts + static_cast<double>(tokens) * h + l * layer + 2 * h;
  }
};

inline Forecast counted(const Workload& w, int ranks, int rank) {
  return forecast(w, backend_named("reference"), ranks, rank);
}
// What a ring of g ranks sends per rank for a sum of so many elements.
inline double ring(int g, double elements) { return 2.0 * (g - 1) / g * elements; }
inline Traffic over(const Forecast& f, const std::string& group, const std::string& kind = "all_reduce") {
  const auto found = f.step_messages.find({group, kind});
  return found == f.step_messages.end() ? Traffic{} : found->second;
}
inline std::size_t kinds(const Forecast& f) { return f.step_messages.size(); }

}  // namespace quadrille::toy
