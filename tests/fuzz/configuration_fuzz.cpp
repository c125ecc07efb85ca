// SPDX-License-Identifier: Apache-2.0
// The model and training objects of a workload and its table, up to the counting run. Input: ranks, then one object
// with "model", "training" and "strategy".
#include "models/model.h"
#include "tests/fuzz/fuzz.h"
#include "training/trainer.h"

using namespace quadrille;

namespace {

std::int64_t number(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value && value->is_integer() ? value->integer() : 0;
}

// What is counted op by op, so that every block and micro-batch takes its time.
bool small(const Workload& w) {
  return number(w.model, "layers") <= 3 && w.training.batch_size <= 16 && w.training.micro_batch <= 16;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const int ranks = 1 + static_cast<int>(input.byte() % 16);
  answers([&] {
    const Json document = parse_json(input.rest(), "workload");
    Workload w;
    w.model = document.at("model");
    w.strategy = document.at("strategy");
    w.vocabulary = 13;
    Json resolved;
    w.training = read_training(document.at("training"), resolved);
    for (std::int64_t step : {std::int64_t{1}, w.training.steps}) rate_at(w.training.rate, step);
    check_workload(w, ranks);
    Json again;
    read_training(resolved, again);
    promise(again == resolved, "a resolved configuration resolves to itself");
    if (small(w)) forecast(w, backend_named("reference"), ranks, ranks - 1);
  });
  return 0;
}
