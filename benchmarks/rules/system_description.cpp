// SPDX-License-Identifier: Apache-2.0
// See system_description.h. The fields are those that the public checker of system descriptions wants (round v5.0).
#include "benchmarks/rules/system_description.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/text.h"
#include "core/build.h"
#include "core/error.h"

namespace quadrille {

namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text,
               '\0');  // a file that is there and cannot be read (the speed of a link that is down) says nothing
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code code;  // a machine without this folder just has no such parts
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    found.push_back(entry->path());
  std::sort(found.begin(), found.end());
  return found;
}

void join(std::string& list, const std::string& part) { list += (list.empty() ? "" : ", ") + part; }

struct Processors {
  std::string model;
  std::size_t sockets = 0;
  long logical = 0, cores = 0;  // of all; of one socket
};

Processors processors_in(const fs::path& path) {
  Processors found;
  std::set<std::string> sockets;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("processor")) ++found.logical;
    if (line.starts_with("model name")) found.model = value;
    if (line.starts_with("physical id")) sockets.insert(value);
    if (line.starts_with("cpu cores")) found.cores = std::strtol(value.c_str(), nullptr, 10);
  }
  found.sockets = sockets.size();
  return found;
}

std::string caches_in(const fs::path& folder) {
  std::string list;
  for (const fs::path& index : entries_of(folder)) {
    const std::string level = content_of(index / "level"), type = content_of(index / "type"),
                      size = content_of(index / "size");
    if (level.empty() || size.empty()) continue;
    join(list, fmt::format("L{}{} {}", level, type == "Data" ? "d" : type == "Instruction" ? "i" : "", size));
  }
  return list;
}

struct Disks {
  std::string type;
  double bytes = 0;
};

Disks storage_in(const fs::path& folder) {
  constexpr double kSector = 512;  // the unit of this file, whatever the disk's own is
  Disks found;
  std::set<std::string> types;
  for (const fs::path& disk : entries_of(folder)) {
    const std::string name = disk.filename().string();
    if (name.starts_with("loop") || name.starts_with("ram") || name.starts_with("zram")) continue;
    const double bytes = kSector * std::strtod(content_of(disk / "size").c_str(), nullptr);
    if (bytes <= 0) continue;
    found.bytes += bytes;
    types.insert(name.starts_with("nvme")                           ? "NVMe SSD"
                 : content_of(disk / "queue" / "rotational") == "1" ? "hard disk or virtual disk"
                                                                    : "SSD");
  }
  for (const std::string& type : types) join(found.type, type);
  return found;
}

std::string networks_in(const fs::path& folder) {
  std::string list;
  for (const fs::path& port : entries_of(folder)) {
    const std::string name = port.filename().string(), speed = content_of(port / "speed");
    if (name == "lo") continue;
    join(list, speed.empty() || speed.starts_with("-") ? name : fmt::format("{} {} Mb/s", name, speed));
  }
  return list;
}

double memory_in(const fs::path& path) {
  std::ifstream file(path);
  std::string name;
  double kibibytes = 0;
  return file >> name >> kibibytes && name == "MemTotal:" ? kibibytes * 1024 : 0;
}

void add_processors(Json& json, const Processors& p, const std::string& root) {
  const auto count = [](long n) { return n > 0 ? std::to_string(n) : std::string(); };
  const fs::path cpu = root + "/sys/devices/system/cpu/cpu0";
  const double kilohertz = std::strtod(content_of(cpu / "cpufreq/cpuinfo_max_freq").c_str(), nullptr);
  json.set("host_processors_per_node", count(static_cast<long>(p.sockets)));
  json.set("host_processor_model_name", p.model);
  json.set("host_processor_core_count", count(p.cores));
  json.set("host_processor_vcpu_count", count(p.logical));
  json.set("host_processor_frequency", kilohertz > 0 ? fmt::format("{:.2f} GHz at most", kilohertz * 1e-6) : "");
  json.set("host_processor_caches", caches_in(cpu / "cache"));
  json.set("host_processor_interconnect", p.sockets == 1 ? "none, one processor" : "");
}

std::string libraries() {
  std::string list = std::string(build_facts().compiler);
  for (const Part& part : build_parts())
    if (part.built) join(list, fmt::format("{} {}", part.name, part.version));
  return list;
}

}  // namespace

Json system_description(const SystemFacts& facts, const std::string& root) {
  const bool here = facts.this_machine;
  const auto bytes = [](double amount) { return amount > 0 ? text_bytes(amount) : std::string(); };
  const Disks storage = here ? storage_in(root + "/sys/block") : Disks();
  Json json = Json::object();
  json.set("submitter", facts.submitter);
  json.set("division", facts.division);
  json.set("status", "Research, Development, or Internal (RDI)");
  json.set("system_name", facts.system_name);
  json.set("number_of_nodes", std::to_string(facts.nodes));
  add_processors(json, here ? processors_in(root + "/proc/cpuinfo") : Processors(), here ? root : "/nowhere");
  json.set("host_memory_capacity", here ? bytes(memory_in(root + "/proc/meminfo")) : "");
  json.set("host_storage_type", storage.type);
  json.set("host_storage_capacity", bytes(storage.bytes));
  json.set("host_networking", here ? networks_in(root + "/sys/class/net") : "");
  json.set("host_networking_topology", facts.nodes == 1 ? "one node" : "");
  json.set("host_memory_configuration", "");  // needs rights that a benchmark does not ask for
  json.set("accelerators_per_node", facts.accelerators ? "" : "0");
  for (const char* what : {"model_name", "host_interconnect", "frequency", "on-chip_memories", "memory_configuration",
                           "memory_capacity", "interconnect", "interconnect_topology"})
    json.set(std::string("accelerator_") + what, facts.accelerators ? "" : "none");
  json.set("cooling", "");
  json.set("hw_notes", "");
  json.set("framework", program_name());
  json.set("other_software_stack", here ? libraries() : "");
  json.set("operating_system", here ? system_name() : "");
  json.set("sw_notes", "measured by its user, not verified by MLCommons");
  return json;
}

std::vector<std::string> missing_fields(const Json& description) {
  std::vector<std::string> missing;
  for (const auto& [key, value] : description.members())
    if (value.string().empty() && !key.ends_with("_notes")) missing.push_back(key);
  return missing;
}

}  // namespace quadrille
