// SPDX-License-Identifier: Apache-2.0
// Which device a rank computes on, opened before any of its numbers move, and the world for numbers that lie there. The
// same for a host back end, where there is nothing to choose. Used by the programs and by the law's checks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "kernels/backend.h"
#include "parallelism/communicator.h"

namespace quadrille {

enum class Collectives : std::uint8_t { automatic, nccl, host };
Collectives collectives_from(std::string_view name);  // "auto", "nccl", "host"; throws Error

struct DeviceChoice {
  std::vector<int> devices;  // that the ranks of a host take in turn; empty: all there are
  bool share = false;        // ranks may take one together
  Collectives collectives = Collectives::automatic;
  double timeout_seconds = 60;  // of a message between devices
};
std::vector<int> device_list_from(const std::string& text);  // "0,1"; throws Error

class RankDevice {
 public:
  // A collective call. Ranks of a host take its devices in turn, by their order in the world. Throws Error: no device,
  // an index that is not there, ranks that would share one although nobody allowed it, NCCL wanted where it cannot be.
  RankDevice(const Backend&, Communicator& host, const DeviceChoice&);

  Device& device() const { return *device_; }
  const DeviceFacts* facts() const { return facts_ ? facts_.get() : nullptr; }  // null: the host
  std::string name() const;                                                     // "cpu", "cuda:0 NVIDIA H200"
  int ranks_beside() const { return ranks_beside_; }                            // that share it, this one included
  bool first_beside() const { return first_beside_; }                           // of them, this is the lowest
  // How numbers of devices travel: "NCCL 2.28.9", "host memory (ranks share a device)"; empty: as the host's world
  // does.
  const std::string& way() const { return way_; }
  // The same ranks, for tensors on their devices. Both must outlive what is made of it.
  std::unique_ptr<Communicator> world(std::unique_ptr<Communicator> host) const;

 private:
  std::string backend_;
  int index_ = 0, ranks_beside_ = 1;
  bool nccl_ = false, first_beside_ = true;
  double timeout_seconds_;
  std::string way_;
  std::unique_ptr<DeviceFacts> facts_;
  std::unique_ptr<Device> device_;
};

}  // namespace quadrille
