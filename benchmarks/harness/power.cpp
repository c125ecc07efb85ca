// SPDX-License-Identifier: Apache-2.0
// See power.h.
#include "benchmarks/harness/power.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"

namespace quadrille {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The few functions of the library that are needed; its header is not, and so this is in every build. All return 0 for
// success. (NVML API reference: nvmlInit_v2, nvmlDeviceGetHandleByUUID, nvmlDeviceGetPowerUsage in milliwatts,
// nvmlDeviceGetTotalEnergyConsumption in millijoules since the driver was loaded.)
class Nvml : public PowerMeter {
 public:
  using Device = void*;

  Nvml(const std::vector<std::string>& ids, const std::string& library) : library_(dlopen(library.c_str(), RTLD_NOW)) {
    require(library_ != nullptr, "{} cannot be loaded", library);
    find("nvmlInit_v2", init_), find("nvmlShutdown", shutdown_), find("nvmlErrorString", words_);
    find("nvmlDeviceGetHandleByUUID", device_), find("nvmlDeviceGetPowerUsage", power_);
    find("nvmlDeviceGetTotalEnergyConsumption", energy_);
    check(init_(), "nvmlInit");
    for (const std::string& id : ids)
      check(device_(uuid(id).c_str(), &devices_.emplace_back(nullptr)), "a GPU's handle");
  }
  ~Nvml() override {
    if (shutdown_) shutdown_();
    if (library_) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string source() const override { return "NVML: power of the whole GPU board"; }
  PowerReading read() override {
    PowerReading all{0, 0.0};
    for (Device device : devices_) {
      unsigned milliwatts = 0;
      check(power_(device, &milliwatts), "a GPU's power");
      all.watts += 1e-3 * milliwatts;
      unsigned long long millijoules = 0;
      if (all.joules && energy_(device, &millijoules) == 0)
        *all.joules += 1e-3 * static_cast<double>(millijoules);
      else
        all.joules.reset();
    }
    return all;
  }

 private:
  template <class Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    require(function != nullptr, "NVML has no {}", name);
  }
  void check(int result, const char* what) const {
    require(result == 0, "NVML: {}: {}", what, result == 0 ? "" : words_(result));
  }
  // "GPU-8-4-4-4-12" of 32 hexadecimal digits.
  static std::string uuid(const std::string& id) {
    require(id.size() == 32, "a GPU's id of {} digits, wanted 32", id.size());
    return fmt::format("GPU-{}-{}-{}-{}-{}", id.substr(0, 8), id.substr(8, 4), id.substr(12, 4), id.substr(16, 4),
                       id.substr(20));
  }

  void* library_;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  const char* (*words_)(int) = nullptr;
  int (*device_)(const char* uuid, Device*) = nullptr;
  int (*power_)(Device, unsigned* milliwatts) = nullptr;
  int (*energy_)(Device, unsigned long long* millijoules) = nullptr;
  std::vector<Device> devices_;
};

}  // namespace

std::unique_ptr<PowerMeter> make_nvml_meter(const std::vector<std::string>& ids, const std::string& library) {
  return std::make_unique<Nvml>(ids, library);
}

void PowerSampler::start() {
  end();
  ends_ = false, samples_.clear(), trouble_.clear();
  sample();
  thread_ = std::thread([this] { look_again(); });
}

void PowerSampler::sample() {
  try {
    samples_.push_back({seconds_now(), meter_->read()});
  } catch (const Error& error) {
    trouble_ = error.what();
  }
}

void PowerSampler::look_again() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::duration<double>(seconds_between_), [this] { return ends_; })) sample();
}

void PowerSampler::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// The counter says what was used; without one, what was read is taken to change evenly between two looks.
Power PowerSampler::stop() {
  end();
  sample();
  Power power;
  if (!trouble_.empty() || samples_.size() < 2) {
    power.source = "not measured: " + (trouble_.empty() ? "too short" : trouble_);
    return power;
  }
  const Sample &first = samples_.front(), &last = samples_.back();
  double joules = 0, most = 0, longest = 0;
  for (std::size_t i = 0; i + 1 < samples_.size(); ++i) {
    const double seconds = samples_[i + 1].at - samples_[i].at;
    joules += seconds * (samples_[i].reading.watts + samples_[i + 1].reading.watts) / 2;
    longest = std::max(longest, seconds);
  }
  for (const Sample& s : samples_) most = std::max(most, s.reading.watts);
  const bool counted = first.reading.joules && last.reading.joules;
  if (counted) joules = *last.reading.joules - *first.reading.joules;
  power.source = meter_->source() + (counted ? "; energy by its own counter" : "; energy by the sum of samples");
  power.joules = joules, power.max_watts = most, power.longest_seconds_between_samples = longest;
  power.mean_watts = last.at > first.at ? joules / (last.at - first.at) : first.reading.watts;
  power.samples = static_cast<std::int64_t>(samples_.size());
  return power;
}

Power power_of_all(const std::vector<Power>& hosts) {
  Power all;
  if (hosts.empty()) {
    all.source = "not measured: of GPUs only";
    return all;
  }
  all = hosts.front();
  for (std::size_t i = 1; i < hosts.size() && all.joules; ++i) {
    const Power& host = hosts[i];
    if (!host.joules) return host;  // a part of the whole would be read as the whole
    *all.joules += *host.joules, *all.mean_watts += *host.mean_watts, *all.max_watts += *host.max_watts;
    all.samples = std::min(all.samples, host.samples);
    all.longest_seconds_between_samples =
        std::max(*all.longest_seconds_between_samples, *host.longest_seconds_between_samples);
  }
  return all;
}

}  // namespace quadrille
