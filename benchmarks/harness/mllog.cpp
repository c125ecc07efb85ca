// SPDX-License-Identifier: Apache-2.0
// See mllog.h.
#include "benchmarks/harness/mllog.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include "core/error.h"

namespace quadrille {

namespace {

std::int64_t monotonic_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// From the repository's root on: a record must not depend on where somebody keeps the sources.
std::string_view place_in_repository(std::string_view file) {
  const auto at = file.rfind("benchmarks/harness/");
  return at == std::string_view::npos ? file.substr(file.rfind('/') + 1) : file.substr(at);
}

}  // namespace

RunClock::RunClock()
    : birth_unix_(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()),
      birth_nanoseconds_(monotonic_nanoseconds()) {}

RunClock::RunClock(double birth_unix) : birth_unix_(birth_unix), birth_nanoseconds_(monotonic_nanoseconds()) {}

double RunClock::seconds() const { return static_cast<double>(monotonic_nanoseconds() - birth_nanoseconds_) * 1e-9; }

std::string mllog_line(std::int64_t time_ms, std::string_view event_type, std::string_view key, const Json& value,
                       const Json& metadata) {
  Json line = Json::object();
  line.set("namespace", "");
  line.set("time_ms", time_ms);
  line.set("event_type", event_type);
  line.set("key", key);
  line.set("value", value);
  line.set("metadata", metadata);
  return ":::MLLOG " + line.text();
}

MlLog::MlLog(const std::string& path, const RunClock& clock) : path_(path), clock_(clock) {
  require(!std::filesystem::exists(path),
          "{} exists already: a run is never appended to an older one; give another --out", path);
  file_.open(path, std::ios::out | std::ios::trunc);
  require(file_.is_open(), "cannot write {}: check that the folder exists and is writable, or give another --out",
          path);
}

void MlLog::point(std::string_view key, const Json& value, Json metadata, double at, Where where) {
  write("POINT_IN_TIME", key, value, std::move(metadata), at, where);
}

void MlLog::start(std::string_view key, Json metadata, double at, Where where) {
  write("INTERVAL_START", key, Json(), std::move(metadata), at, where);
}

void MlLog::stop(std::string_view key, Json metadata, double at, Where where) {
  write("INTERVAL_END", key, Json(), std::move(metadata), at, where);
}

void MlLog::write(std::string_view event_type, std::string_view key, const Json& value, Json metadata, double at,
                  Where where) {
  metadata.set("file", place_in_repository(where.file_name()));
  metadata.set("lineno", static_cast<std::int64_t>(where.line()));
  const double seconds = clock_.unix_seconds(at < 0 ? clock_.seconds() : at);
  file_ << mllog_line(std::llround(seconds * 1000), event_type, key, value, metadata) << '\n' << std::flush;
  require(file_.good(), "cannot write to {}: is the disk full?", path_);
}

}  // namespace quadrille
