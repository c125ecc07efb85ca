// SPDX-License-Identifier: Apache-2.0
// See tally.h.
#include "benchmarks/harness/tally.h"

namespace quadrille {

namespace {

Json work_json(const Work& work) {
  Json json = Json::array();
  for (double part : {work.useful, work.recomputed, work.repeated, work.padded, work.skipped}) json.push(part);
  return json;
}

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  work += other.work;
  for (const auto& [key, traffic] : other.messages) messages[key] += traffic;
  for (const auto& [name, seconds] : other.phases) phases[name] += seconds;
  return *this;
}

Tally Tally::operator-(const Tally& earlier) const {
  Tally gain;
  gain.work = {work.useful - earlier.work.useful, work.recomputed - earlier.work.recomputed,
               work.repeated - earlier.work.repeated, work.padded - earlier.work.padded,
               work.skipped - earlier.work.skipped};
  for (const auto& [key, now] : messages) {
    const auto found = earlier.messages.find(key);
    const Traffic before = found == earlier.messages.end() ? Traffic{} : found->second;
    if (now.calls != before.calls || now.exposed != before.exposed)  // a wait may end later than its message was booked
      gain.messages[key] = {now.calls - before.calls, now.elements - before.elements, now.bytes - before.bytes,
                            now.seconds - before.seconds, now.exposed - before.exposed};
  }
  for (const auto& [name, now] : phases) {
    const auto found = earlier.phases.find(name);
    const double before = found == earlier.phases.end() ? 0 : found->second;
    if (now != before) gain.phases[name] = now - before;
  }
  return gain;
}

Json tally_json(const Tally& tally) {
  Json messages = Json::array();
  for (const auto& [key, t] : tally.messages) {
    Json line = Json::array();
    for (const Json& part : {Json(key.first), Json(key.second), Json(t.calls), Json(t.elements), Json(t.bytes),
                             Json(t.seconds), Json(t.exposed)})
      line.push(part);
    messages.push(line);
  }
  Json phases = Json::object();
  for (const auto& [name, seconds] : tally.phases) phases.set(name, seconds);
  Json json = Json::object();
  json.set("work", work_json(tally.work));
  json.set("messages", messages);
  json.set("phases", phases);
  return json;
}

Tally tally_from(const Json& json) {
  Tally tally;
  const Json& work = json.at("work");
  tally.work = {work.at(std::size_t{0}).number(), work.at(1).number(), work.at(2).number(), work.at(3).number(),
                work.at(4).number()};
  for (const Json& line : json.at("messages").items())
    tally.messages[{line.at(std::size_t{0}).string(), line.at(1).string()}] = {
        line.at(2).integer(), line.at(3).number(), line.at(4).number(), line.at(5).number(), line.at(6).number()};
  for (const auto& [name, seconds] : json.at("phases").members()) tally.phases[name] = seconds.number();
  return tally;
}

}  // namespace quadrille
