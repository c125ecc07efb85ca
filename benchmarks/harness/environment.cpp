// SPDX-License-Identifier: Apache-2.0
// See environment.h.
#include "benchmarks/harness/environment.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "benchmarks/harness/cores.h"
#include "core/build.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

// The value behind `key` in a file of "key : value" lines.
std::string value_in(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    value.erase(0, value.find_first_not_of(" \t\""));
    value.erase(value.find_last_not_of(" \t\"") + 1);
    return value;
  }
  return {};
}

std::int64_t kibibytes_in(const char* path, std::string_view key) {
  return std::strtoll(value_in(path, key, ':').c_str(), nullptr, 10) * 1024;
}

Json variables_json() {
  Json variables = Json::object();
  for (const char* name : {"OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "OMP_DYNAMIC",
                           "GOMP_SPINCOUNT", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME", "DNNL_MAX_CPU_ISA",
                           "ONEDNN_MAX_CPU_ISA", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"})
    if (const char* value = std::getenv(name)) variables.set(name, value);
  return variables;
}

Json libraries_json() {
  Json libraries = Json::object();
  for (const Part& part : build_parts())
    libraries.set(part.name, !part.built            ? fmt::format("absent: {}", part.remedy)
                             : part.version.empty() ? std::string("present")
                                                    : std::string(part.version));
  return libraries;
}

}  // namespace

std::string cpu_model() {
  std::string model = value_in("/proc/cpuinfo", "model name", ':');
  return model.empty() ? "unknown" : model;
}

std::string system_name() {
  utsname names{};
  const bool known = uname(&names) == 0;
  std::string release = value_in("/etc/os-release", "PRETTY_NAME", '=');
  const std::string kernel = known ? fmt::format("{} {}", names.sysname, names.release) : "unknown system";
  return release.empty() ? kernel : release + ", " + kernel;
}

std::int64_t memory_bytes() { return kibibytes_in("/proc/meminfo", "MemTotal"); }
std::int64_t free_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kibibytes = 0; file >> name >> kibibytes; std::getline(file, unit))
    if (name == "MemAvailable:") return kibibytes * 1024;
  return 0;
}

std::int64_t process_peak_bytes() { return kibibytes_in("/proc/self/status", "VmHWM"); }
std::string program_name() { return fmt::format("quadrille {}", build_facts().version); }

Json environment_json() {
  const BuildFacts facts = build_facts();
  Json json = Json::object();
  json.set("host", host_name());
  json.set("cpu_model", cpu_model());
  json.set("usable_cores", usable_cores());
  json.set("memory_bytes", memory_bytes());
  json.set("system", system_name());
  json.set("compiler", facts.compiler);
  json.set("compiler_flags", facts.flags);
  json.set("build_type", facts.type);
  json.set("sanitizers", facts.sanitizers);
  json.set("source_revision", facts.revision);
  json.set("source_modified", facts.modified);
  json.set("binding", binding_description());
  json.set("mpi", mpi_description());
  json.set("libraries", libraries_json());
  json.set("variables", variables_json());
  return json;
}

}  // namespace quadrille
