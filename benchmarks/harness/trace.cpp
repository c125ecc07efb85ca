// SPDX-License-Identifier: Apache-2.0
// See trace.h. Format: "JSON object format" of the trace event documentation; times in microseconds.
#include "benchmarks/harness/trace.h"

#include <fmt/core.h>

#include <algorithm>

#include "benchmarks/harness/gather.h"
#include "core/error.h"
#include "core/json.h"

namespace quadrille {

namespace {

const char* kind_name(Entry::Kind kind) {
  switch (kind) {
    case Entry::Kind::op:
      return "op";
    case Entry::Kind::message:
      return "message";
    case Entry::Kind::wait:
      return "wait";
    case Entry::Kind::phase:
      return "phase";
  }
  return "?";
}

constexpr int kTracks = 4;  // kinds of entries of one thread

Json event_of(const Entry& entry, double zero, int rank) {
  Json event = Json::object();
  event.set("name", entry.name);
  event.set("cat", kind_name(entry.kind));
  event.set("ph", "X");
  event.set("ts", (entry.begin - zero) * 1e6);
  event.set("dur", (entry.end - entry.begin) * 1e6);
  event.set("pid", rank);
  event.set("tid", static_cast<int>(entry.kind) + kTracks * entry.track);
  Json args = Json::object();
  if (!entry.group.empty()) args.set("group", entry.group);
  if (entry.cost.flops > 0) args.set("flops", entry.cost.flops);
  if (entry.cost.bytes > 0) args.set("bytes", entry.cost.bytes);
  event.set("args", args);
  return event;
}

Json name_event(const char* what, int rank, int thread, const std::string& name) {
  Json args = Json::object();
  args.set("name", name);
  Json event = Json::object();
  event.set("name", what);
  event.set("ph", "M");
  event.set("pid", rank);
  event.set("tid", thread);
  event.set("args", args);
  return event;
}

}  // namespace

std::string trace_events(const Ledger& ledger, double zero, int rank, const std::string& host) {
  std::string text = name_event("process_name", rank, 0, fmt::format("rank {} on {}", rank, host)).text();
  for (const Entry::Kind kind : {Entry::Kind::op, Entry::Kind::message, Entry::Kind::wait, Entry::Kind::phase})
    text += ",\n" + name_event("thread_name", rank, static_cast<int>(kind), kind_name(kind)).text();
  const auto beside = [](const Entry& entry) { return entry.track > 0; };
  if (std::any_of(ledger.entries().begin(), ledger.entries().end(), beside))
    text +=
        ",\n" +
        name_event("thread_name", rank, static_cast<int>(Entry::Kind::message) + kTracks, "message, carried").text();
  for (const Entry& entry : ledger.entries()) text += ",\n" + event_of(entry, zero, rank).text();
  return text;
}

void write_trace(Communicator& world, const Ledger& ledger, double zero, const std::string& host,
                 const std::string& path) {
  const std::vector<std::string> all = gather_text(world, trace_events(ledger, zero, world.rank(), host));
  if (world.rank() != 0) return;
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (std::size_t rank = 0; rank < all.size(); ++rank) text += (rank > 0 ? ",\n" : "") + all[rank];
  write_file_whole(path, text + "\n]}\n");
}

}  // namespace quadrille
