// SPDX-License-Identifier: Apache-2.0
// Messages of a device's numbers through host memory: copied out, moved by the host's world, copied back. For devices
// that several ranks share, and where NCCL is absent or MPI knows nothing of devices.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/arena.h"
#include "core/error.h"
#include "parallelism/device_worlds.h"
#include "parallelism/group.h"

namespace quadrille {

namespace {

// Memory of the host that the device copies from and to. It grows to what a step needs and is then used again.
class Stage {
 public:
  explicit Stage(Device& device) : memory_(device.host_side()), stream_(device.make_stream()) {}

  Tensor place_for(const Tensor& like) {
    const std::int64_t room = arena_ ? arena_->capacity() : 0;
    try {
      if (arena_ && like.bytes() <= room) return arena_->empty(like.shape(), like.dtype(), End::low);
    } catch (const Error&) {  // taken by others: a larger one
    }
    arena_.emplace(*memory_, 2 * room + like.bytes() + 4096);
    return arena_->empty(like.shape(), like.dtype(), End::low);
  }
  // Complete on return, so that anybody may use both sides.
  void copy(const Tensor& to, const Tensor& from) {
    stream_->copy(to, from);
    stream_->synchronize();
  }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Device> memory_;
  std::unique_ptr<Stream> stream_;
  std::optional<Arena> arena_;
};

class StagedGroup : public Group {
 public:
  StagedGroup(std::unique_ptr<Communicator> host, Device& device)
      : Group(host->rank(), host->size(), host->name(), Moves::any_numbers),
        host_(std::move(host)),
        device_(device),
        stage_(std::make_shared<Stage>(device)) {
    host_->report_to(nullptr);  // the bill is this group's
  }
  void poison(const std::string& message) noexcept override { host_->poison(message); }
  bool failed() noexcept override { return host_->failed(); }
  bool help_sends() noexcept override { return host_->help_sends(); }

 private:
  class Receipt;

  void collective(const Header& header, const Tensor& out, const Tensor& in) override {
    if (sleeps()) host_->sleep_in_waits();
    if (header.operation == Operation::barrier) return host_->barrier();
    const Tensor staged_out = stage_->place_for(out);
    if (out.same_place(in)) {  // a sum or a broadcast
      stage_->copy(staged_out, in);
      move(header, staged_out, staged_out);
    } else {
      const Tensor staged_in = stage_->place_for(in);
      stage_->copy(staged_in, in);
      move(header, staged_out, staged_in);
    }
    stage_->copy(out, staged_out);
  }

  void move(const Header& header, const Tensor& out, const Tensor& in) {
    Stream& stream = stage_->stream();
    switch (header.operation) {
      case Operation::all_reduce:
        return host_->all_reduce(out, header.reduce, stream).wait(stream);
      case Operation::all_gather:
        return host_->all_gather(out, in, stream).wait(stream);
      case Operation::reduce_scatter:
        return host_->reduce_scatter(out, in, header.reduce, stream).wait(stream);
      case Operation::all_to_all:
        return host_->all_to_all(out, in, stream).wait(stream);
      case Operation::broadcast:
        return host_->broadcast(out, header.root, stream).wait(stream);
      case Operation::send:
      case Operation::receive:
      case Operation::barrier:
      case Operation::exchange:
        break;
    }
    fail("{} is no message of tensors between all ranks", words(header));
  }

  void post(const Header&, const Tensor& tensor, int to) override {
    const Tensor staged = stage_->place_for(tensor);
    stage_->copy(staged, tensor);
    host_->send(staged, to, stage_->stream()).wait(stage_->stream());  // which takes a copy
  }

  std::shared_ptr<Ticket::Pending> await(const Header&, const Tensor& tensor, int from) override;

  std::vector<Json> exchange_values(const Header&, const Json& mine) override { return host_->exchange(mine); }

  std::unique_ptr<Group> subgroup(std::vector<int> members, int, std::uint64_t, int colour, std::string name) override {
    return std::make_unique<StagedGroup>(host_->split(colours_of(members, colour), std::move(name)), device_);
  }

  std::unique_ptr<Communicator> host_;
  Device& device_;
  std::shared_ptr<Stage> stage_;  // receives may outlive the group
};

class StagedGroup::Receipt : public Ticket::Pending {
 public:
  Receipt(std::shared_ptr<Stage> stage, Tensor tensor, Tensor staged, Ticket coming)
      : stage_(std::move(stage)), tensor_(std::move(tensor)), staged_(std::move(staged)), coming_(std::move(coming)) {}
  void wait(Stream&) override {
    std::move(coming_).wait(stage_->stream());
    stage_->copy(tensor_, staged_);
    tensor_ = {};
  }

 private:
  std::shared_ptr<Stage> stage_;
  Tensor tensor_, staged_;
  Ticket coming_;
};

std::shared_ptr<Ticket::Pending> StagedGroup::await(const Header&, const Tensor& tensor, int from) {
  const Tensor staged = stage_->place_for(tensor);
  Ticket coming = host_->receive(staged, from, stage_->stream());
  return std::make_shared<Receipt>(stage_, tensor, staged, std::move(coming));
}

}  // namespace

std::unique_ptr<Communicator> over_host_memory(std::unique_ptr<Communicator> host, Device& device) {
  return std::make_unique<StagedGroup>(std::move(host), device);
}

}  // namespace quadrille
