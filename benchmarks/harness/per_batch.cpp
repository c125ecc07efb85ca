// SPDX-License-Identifier: Apache-2.0
// See per_batch.h.
#include "benchmarks/harness/per_batch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/error.h"

namespace quadrille {

namespace {

struct Set {
  std::int64_t batch = 0;
  std::map<std::string, Json> values;     // "training.rate.peak"
  std::map<std::string, double> samples;  // values counted in steps, here in samples of the data
};

double positive(const Json& json) {
  require(json.number() > 0 && std::isfinite(json.number()), "{}: found {}, wanted a number above 0", json.origin(),
          json.text());
  return json.number();
}

void add_samples(Set& set, const Json* json) {
  if (!json) return;
  for (const auto& [path, value] : json->members()) set.samples[path] = positive(value);
}

std::vector<Set> read_sets(const Json& json) {
  Reader reader(json, "per_batch");
  reader.string("sources", "");
  const Json* common = reader.value("in_samples");
  std::vector<Set> sets;
  for (const Json& one : reader.needed("sets").items()) {
    Set set;
    set.batch = one.at("batch_size").integer();
    require(set.batch > 0, "{}: batch_size is {}, wanted at least 1", one.origin(), set.batch);
    add_samples(set, common);
    for (const auto& [path, value] : one.members()) {
      if (path == "in_samples") add_samples(set, &value);
      if (path != "in_samples" && path != "batch_size") set.values[path] = value;
    }
    sets.push_back(std::move(set));
  }
  reader.done();
  require(!sets.empty(), "{}: no sets", json.origin());
  std::sort(sets.begin(), sets.end(), [](const Set& a, const Set& b) { return a.batch < b.batch; });
  for (std::size_t i = 1; i < sets.size(); ++i)
    require(sets[i].batch > sets[i - 1].batch, "{}: two sets for batch {}", json.origin(), sets[i].batch);
  return sets;
}

// Linear in the batch size. What is not a number, or missing on one side, stays as below.
Set between(const Set& below, const Set& above, std::int64_t batch) {
  const double part = static_cast<double>(batch - below.batch) / static_cast<double>(above.batch - below.batch);
  Set set = below;
  for (auto& [path, value] : set.values) {
    const auto other = above.values.find(path);
    if (other == above.values.end() || !value.is_number() || !other->second.is_number()) continue;
    const double mixed = value.number() + part * (other->second.number() - value.number());
    value = value.is_integer() && other->second.is_integer() ? Json(static_cast<std::int64_t>(std::llround(mixed)))
                                                             : Json(mixed);
  }
  for (auto& [path, value] : set.samples)
    if (const auto other = above.samples.find(path); other != above.samples.end())
      value += part * (other->second - value);
  return set;
}

Set set_for(const std::vector<Set>& sets, std::int64_t batch, PerBatch& outcome) {
  const auto above = std::find_if(sets.begin(), sets.end(), [&](const Set& set) { return set.batch >= batch; });
  if (above != sets.end() && above->batch == batch) {
    outcome.published = true;
    return *above;
  }
  if (above == sets.begin() || above == sets.end()) {
    const Set& nearest_set = above == sets.end() ? sets.back() : sets.front();
    outcome.warning = fmt::format(
        "no published hyperparameters for batch {}: outside of {} to {}, those of batch {} are taken as they are; "
        "expect another convergence",
        batch, sets.front().batch, sets.back().batch, nearest_set.batch);
    return nearest_set;
  }
  const Set& below = *(above - 1);
  outcome.warning = fmt::format("no published hyperparameters for batch {}: interpolated between those of {} and {}",
                                batch, below.batch, above->batch);
  return between(below, *above, batch);
}

void put_path(Json& document, const std::string& path, Json value, const std::string& origin) {
  Json* at = &document;
  std::size_t begin = 0;
  for (auto dot = path.find('.'); dot != std::string::npos; begin = dot + 1, dot = path.find('.', begin)) {
    const std::string key = path.substr(begin, dot - begin);
    if (!at->find(key)) at->set(key, Json::object().from(origin));
    at = at->find(key);
    require(at->is_object(), "{}: \"{}\" leads into {}, wanted an object", origin, path, at->kind());
  }
  at->set(path.substr(begin), value.from(origin));
}

}  // namespace

PerBatch apply_per_batch(Json& document, std::int64_t wanted) {
  PerBatch outcome;
  const Json* given = document.find("per_batch");
  if (!given) return outcome;
  outcome.given = true;
  const std::vector<Set> sets = read_sets(*given);
  const std::string origin = given->origin();
  const std::int64_t batch = wanted > 0 ? wanted : document.at("training").at("batch_size").integer();
  require(batch > 0, "training.batch_size is {}, wanted at least 1", batch);
  const Set set = set_for(sets, batch, outcome);
  const std::string from = fmt::format("{}, per_batch for {}", origin, batch);
  for (const auto& [path, value] : set.values) put_path(document, path, value, from);
  for (const auto& [path, samples] : set.samples) {
    const double steps = std::ceil(samples / static_cast<double>(batch));
    require(steps < 9e15, "{}: {} samples are too many steps for {}", origin, samples, path);
    put_path(document, path, static_cast<std::int64_t>(steps), from);
  }
  document.erase("per_batch");
  return outcome;
}

}  // namespace quadrille
