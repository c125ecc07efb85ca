// SPDX-License-Identifier: Apache-2.0
#include "parallelism/rank_device.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "parallelism/device_worlds.h"
#include "parallelism/message.h"
#include "parallelism/world.h"

namespace quadrille {

Collectives collectives_from(std::string_view name) {
  if (name == "auto") return Collectives::automatic;
  if (name == "nccl") return Collectives::nccl;
  if (name == "host") return Collectives::host;
  fail("unknown --collectives {}: auto, nccl and host are known", name);
}

std::vector<int> device_list_from(const std::string& text) {
  std::vector<int> list;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    int index = -1;
    const auto [stop, error] = std::from_chars(at, end, index);
    require(error == std::errc() && index >= 0 && (stop == end || (*stop == ',' && stop + 1 < end)),
            "--devices {}: wanted numbers with commas between them, such as 0,1", text);
    require(std::find(list.begin(), list.end(), index) == list.end(), "--devices {} names {} twice", text, index);
    list.push_back(index);
    at = stop == end ? end : stop + 1;
  }
  return list;
}

namespace {

// Everyone's host and, once chosen, device.
struct Seat {
  std::string host, id;
};
std::vector<Seat> seats_of(Communicator& host, const std::string& id) {
  Json mine = Json::object();
  mine.set("host", host_name());
  mine.set("device", id);
  std::vector<Seat> seats;
  for (const Json& theirs : host.exchange(mine))
    seats.push_back({theirs.at("host").string(), theirs.at("device").string()});
  return seats;
}

// Ranks by the device they sit on.
std::map<std::pair<std::string, std::string>, std::vector<int>> tables_of(const std::vector<Seat>& seats) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> tables;
  for (std::size_t rank = 0; rank < seats.size(); ++rank)
    tables[{seats[rank].host, seats[rank].id}].push_back(static_cast<int>(rank));
  return tables;
}

}  // namespace

RankDevice::RankDevice(const Backend& backend, Communicator& host, const DeviceChoice& choice)
    : backend_(backend.name), timeout_seconds_(choice.timeout_seconds) {
  require(backend.ops != nullptr && backend.open_device != nullptr, "the back end \"{}\" is not in this build: {}",
          backend.name, backend.absent_because);
  if (!backend.devices) {
    require(choice.devices.empty() && !choice.share && choice.collectives == Collectives::automatic,
            "--devices, --share-devices and --collectives are for GPUs; back end {} computes on the host",
            backend.name);
    device_ = backend.open_device(0);
    return;
  }
  const std::vector<DeviceFacts> all = backend.devices();
  std::vector<int> turn = choice.devices;
  if (turn.empty()) turn.resize(all.size()), std::iota(turn.begin(), turn.end(), 0);
  for (const int index : turn)
    require(index < static_cast<int>(all.size()), "--devices {}: {} has devices 0 to {} only", fmt::join(turn, ","),
            host_name(), all.size() - 1);
  // A launcher may show each process a device of its own: then all have index 0, and the ids differ.
  const std::vector<Seat> before = seats_of(host, "");
  const auto place = static_cast<std::size_t>(std::count_if(
      before.begin(), before.begin() + host.rank(), [&](const Seat& seat) { return seat.host == host_name(); }));
  index_ = turn[place % turn.size()];
  facts_ = std::make_unique<DeviceFacts>(all[static_cast<std::size_t>(index_)]);

  const auto tables = tables_of(seats_of(host, facts_->id));
  bool shared = false;
  for (const auto& [table, ranks] : tables) {
    shared = shared || ranks.size() > 1;
    require(choice.share || ranks.size() == 1,
            "{} of {} would share one GPU: start no more ranks than GPUs ({} here), or give --share-devices, and their "
            "messages go through host memory",
            rank_list(ranks), table.first, turn.size());
  }
  const std::vector<int>& beside = tables.at({host_name(), facts_->id});
  ranks_beside_ = static_cast<int>(beside.size());
  first_beside_ = beside.front() == host.rank();
  const std::string_view absent = nccl_absent_because();
  if (choice.collectives == Collectives::nccl) {
    require(absent.empty(), "--collectives nccl: NCCL is not in this program: {}", absent);
    require(!shared, "--collectives nccl: NCCL wants a GPU for each rank, and some share one; take --collectives host");
  }
  nccl_ = choice.collectives == Collectives::nccl ||
          (choice.collectives == Collectives::automatic && !shared && absent.empty() && host.size() > 1);
  if (nccl_)
    way_ = "NCCL " + nccl_version();
  else if (host.size() > 1)
    way_ = choice.collectives == Collectives::host ? "host memory (asked for)"
           : shared                                ? "host memory (ranks share a GPU)"
                                                   : fmt::format("host memory (NCCL: {})", absent);
  device_ = backend.open_device(index_);
}

std::string RankDevice::name() const { return facts_ ? fmt::format("{} {}", device_->name(), facts_->name) : backend_; }

std::unique_ptr<Communicator> RankDevice::world(std::unique_ptr<Communicator> host) const {
  if (!facts_) return host;
  return nccl_ ? over_nccl(std::move(host), *device_, timeout_seconds_) : over_host_memory(std::move(host), *device_);
}

}  // namespace quadrille
