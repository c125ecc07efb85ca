// SPDX-License-Identifier: Apache-2.0
// What the GPUs of a run draw while its clock runs. Read from NVIDIA's management library, which comes with the driver
// and is looked for when the program runs; where it is not, nothing is claimed. Used by the session: the first rank of
// each host asks for all GPUs that the ranks of its host use.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/harness/record.h"

namespace quadrille {

// One look at all devices together.
struct PowerReading {
  double watts = 0;
  std::optional<double> joules;  // of a counter of the devices, if they have one
};
class PowerMeter {
 public:
  virtual ~PowerMeter() = default;
  virtual std::string source() const = 0;
  virtual PowerReading read() = 0;  // throws Error
};
// Of these devices, by the ids of their facts. Throws Error: no library, or a device that it does not know.
std::unique_ptr<PowerMeter> make_nvml_meter(const std::vector<std::string>& ids,
                                            const std::string& library = "libnvidia-ml.so.1");

// Reads twice a second on a thread of its own, from `start` to `stop`.
class PowerSampler {
 public:
  static constexpr double kSecondsBetween = 0.5;
  explicit PowerSampler(std::unique_ptr<PowerMeter> meter, double seconds_between = kSecondsBetween)
      : meter_(std::move(meter)), seconds_between_(seconds_between) {}
  ~PowerSampler() { end(); }
  void start();
  Power stop();

 private:
  struct Sample {
    double at = 0;  // seconds
    PowerReading reading;
  };
  void sample();
  void look_again();
  void end();

  std::unique_ptr<PowerMeter> meter_;
  const double seconds_between_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool ends_ = false;
  std::vector<Sample> samples_;
  std::string trouble_;
  std::thread thread_;
};

// What hosts measured, together: watts add up. Empty: the back end computes on the host.
Power power_of_all(const std::vector<Power>& hosts);

}  // namespace quadrille
