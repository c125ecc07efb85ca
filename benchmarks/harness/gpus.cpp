// SPDX-License-Identifier: Apache-2.0
// See gpus.h.
#include "benchmarks/harness/gpus.h"

#include <fmt/core.h>

#include "benchmarks/harness/peaks.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/micro/device_probe.h"
#include "core/build.h"
#include "core/error.h"
#include "parallelism/device_worlds.h"
#include "parallelism/world.h"

namespace quadrille {

DeviceChoice device_choice(const DeviceOptions& options, double timeout_seconds) {
  return {device_list_from(options.devices), options.share, collectives_from(options.collectives), timeout_seconds};
}

void refuse_gpu_options(const Backend& backend, const DeviceOptions& options) {
  device_list_from(options.devices);
  require(
      backend.devices || (options.devices.empty() && !options.share && options.collectives == "auto"),
      "--devices, --share-devices and --collectives are for GPUs, back end {} computes on the host; leave them out, "
      "or take --backend cuda",
      backend.name);
}

std::string devices_text() {
  using Align = TextTable::Align;
  TextTable table({{"", Align::left}, {"", Align::left}, {"", Align::left}, {"", Align::left}});
  std::string none;
  for (const Backend& backend : backends()) {
    if (!backend.devices) continue;
    try {
      int index = 0;
      for (const DeviceFacts& device : backend.devices())
        table.row({fmt::format("{}:{}", backend.name, index++), device.name, device.kind,
                   fmt::format("{}, {} free", text_bytes(static_cast<double>(device.bytes)),
                               text_bytes(static_cast<double>(device.free_bytes)))});
      for (const auto& [what, version] : backend.versions()) table.row({what, version, "", ""});
    } catch (const Error& error) {
      none = fmt::format("  {}\n", error.what());
    }
  }
  if (!none.empty()) return none;
  const std::string text = table.text();
  return text.empty() ? "  none: no back end of this build uses GPUs\n" : text;
}

Json devices_json(const Backend& backend) {
  Json json = Json::object();
  if (!backend.devices) return json;
  Json devices = Json::array();
  for (const DeviceFacts& device : backend.devices()) {
    Json one = Json::object();
    one.set("name", device.name);
    one.set("kind", device.kind);
    one.set("memory_bytes", device.bytes);
    devices.push(std::move(one));
  }
  json.set("devices", std::move(devices));
  for (const auto& [what, version] : backend.versions()) json.set(what, version);
  json.set("cuDNN", std::string(build_part("cuDNN").version));
  json.set("NCCL", nccl_version());
  return json;
}

std::vector<std::string> gpus_of_host(Communicator& world, const RankDevice& device) {
  Json mine = Json::object();
  mine.set("host", host_name());
  mine.set("id", device.facts() && device.first_beside() ? device.facts()->id : "");
  std::vector<std::string> ids;
  for (const Json& theirs : world.exchange(mine))
    if (theirs.at("host").string() == host_name() && !theirs.at("id").string().empty())
      ids.push_back(theirs.at("id").string());
  return ids;
}

Peak measure_gpu_peak(Communicator& world, const RankDevice& device, const Backend& backend,
                      const TrainingConfig& training, double seconds, const Json& datasheets) {
  Peak peak;
  peak.number_type = training.precision();
  if (seconds <= 0) peak.note = "no probe: run.probe_seconds is 0";
  Json mine = Json::object();
  mine.set("name", device.first_beside() ? device.facts()->name : "");
  world.barrier();
  mine.set("gemm", seconds > 0 && device.first_beside()
                       ? probe_products(device.device(), backend.ops(), training.dtype, training.tf32, seconds)
                       : 0.0);
  bool alike = true;
  for (const Json& theirs : world.exchange(mine)) {
    const std::string& name = theirs.at("name").string();
    if (name.empty()) continue;
    alike = alike && (peak.cores == 0 || name == peak.instruction_set);
    peak.instruction_set = name;
    peak.measured_gemm_flops_per_second += theirs.at("gemm").number();
    ++peak.cores;
  }
  if (alike)
    add_datasheet_peak(peak, peak.instruction_set, peak.number_type, peak.cores, datasheets);
  else
    peak.datasheet_source = "n/a: the GPUs are of different kinds";
  return peak;
}

void refuse_more_than_device(const RankDevice& device, double forecast_bytes) {
  const DeviceFacts* facts = device.facts();
  const double needed = forecast_bytes * device.ranks_beside();
  require(!facts || needed <= static_cast<double>(facts->free_bytes),
          "the forecast is {} for {} rank{} on {}, which has {} free; take a smaller training.batch_size or "
          "training.micro_batch, or split the model over more GPUs (quadrille plan shows the parts), or say "
          "--oversubscribe",
          text_bytes(needed), device.ranks_beside(), device.ranks_beside() == 1 ? "" : "s", device.name(),
          facts ? text_bytes(static_cast<double>(facts->free_bytes)) : "");
}

}  // namespace quadrille
