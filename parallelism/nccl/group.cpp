// SPDX-License-Identifier: Apache-2.0
// The messages of one group over NCCL. A call puts its message on one of the rank's streams, behind what the producer's
// stream holds, and returns; the ticket makes the consumer's stream wait for it. No host waits.
//
// Memory may be given back as soon as the consumer's wait has been queued, although the message may not even have
// begun: whatever uses the memory next is queued on the computing stream behind that wait, or on a stream of messages
// behind a point of the computing stream that lies behind it. A dropped ticket has no such wait, so its tensors are
// kept until the message is through.
//
// Sends and receives must not hold each other up, for programs send first and receive then. NCCL orders all messages of
// one communicator, so those to higher and to lower ranks travel over two communicators on two streams, and a send
// takes a copy: then a row of stages and a ring of neighbours get on whoever comes first.
#include <utility>

#include "core/cuda/check.h"
#include "core/cuda/device.h"
#include "core/error.h"
#include "parallelism/device_worlds.h"
#include "parallelism/group.h"
#include "parallelism/nccl/connection.h"
#include "parallelism/nccl/station.h"

namespace quadrille {

namespace nccl {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
    case DType::bf16:
      return ncclBfloat16;
  }
  fail("NCCL has no numbers of type {}", name_of(dtype));
}

ncclResult_t all_to_all(const Header& h, const Tensor& out, const Tensor& in, int size, ncclComm_t comm,
                        cudaStream_t stream) {
  const std::int64_t part = h.count / size, bytes = part * size_of(h.dtype);
  const auto n = static_cast<std::size_t>(part);
  const auto at = [bytes](const Tensor& t, int peer) {
    return t.data() ? static_cast<std::byte*>(t.data()) + peer * bytes : nullptr;
  };
  if (const ncclResult_t begun = ncclGroupStart(); begun != ncclSuccess) return begun;
  ncclResult_t first = ncclSuccess;
  const auto note = [&first](ncclResult_t result) {
    if (first == ncclSuccess || first == ncclInProgress) first = result;
  };
  for (int peer = 0; peer < size; ++peer) {
    note(ncclSend(at(in, peer), n, type_of(h.dtype), peer, comm, stream));
    note(ncclRecv(at(out, peer), n, type_of(h.dtype), peer, comm, stream));
  }
  const ncclResult_t end = ncclGroupEnd();
  return first == ncclSuccess || first == ncclInProgress ? end : first;
}

ncclResult_t collective(const Header& h, const Tensor& out, const Tensor& in, int size, ncclComm_t comm,
                        cudaStream_t stream) {
  const auto n = static_cast<std::size_t>(h.count);
  const ncclDataType_t type = type_of(h.dtype);
  const ncclRedOp_t how = h.reduce == Reduce::max ? ncclMax : ncclSum;
  switch (h.operation) {
    case Operation::all_reduce:
      return ncclAllReduce(in.data(), out.data(), n, type, how, comm, stream);
    case Operation::all_gather:
      return ncclAllGather(in.data(), out.data(), n, type, comm, stream);
    case Operation::reduce_scatter:
      return ncclReduceScatter(in.data(), out.data(), n, type, how, comm, stream);
    case Operation::broadcast:
      return ncclBroadcast(in.data(), out.data(), n, type, h.root, comm, stream);
    case Operation::all_to_all:
      return all_to_all(h, out, in, size, comm, stream);
    case Operation::send:
    case Operation::receive:
    case Operation::barrier:
    case Operation::exchange:
      break;
  }
  fail("{} is no message of tensors between all ranks", words(h));
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

class UnderWay : public Ticket::Pending {
 public:
  UnderWay(std::shared_ptr<Station> station, std::shared_ptr<Passage> passage)
      : station_(std::move(station)), passage_(std::move(passage)) {}
  void wait(Stream& consumer) override {
    station_->refuse_if_stopped();
    station_->enter_device();
    const cudaStream_t stream = cuda_stream(consumer);
    if (passage_->begin) passage_->before.emplace(stream);
    passage_->end->hold_up(stream);
    if (passage_->begin) passage_->after.emplace(stream);
    passage_->tensors.clear();
  }

 private:
  std::shared_ptr<Station> station_;
  std::shared_ptr<Passage> passage_;
};

// The way of all messages in one direction, to higher or to lower ranks.
struct Way {
  Way(Station& station, Communicator& host) : connection(station, host), lane(station.add_lane(true)) {}
  Connection connection;
  std::shared_ptr<Lane> lane;
};

class NcclGroup : public Group {
 public:
  NcclGroup(std::unique_ptr<Communicator> host, std::shared_ptr<Station> station)
      : Group(host->rank(), host->size(), host->name(), Moves::on_streams),
        host_(std::move(host)),
        station_(std::move(station)) {
    host_->report_to(nullptr);  // the bill is this group's
    if (size() > 1) connection_ = std::make_unique<Connection>(*station_, *host_);
  }
  void poison(const std::string& message) noexcept override { station_->stop(message); }
  bool failed() noexcept override { return host_->failed(); }
  bool on_streams() const override { return true; }
  void travel_in_bulk() override { bulk_ = true; }
  void prepare_passing() override {
    if (size() == 1 || up_) return;
    up_ = std::make_unique<Way>(*station_, *host_);
    down_ = std::make_unique<Way>(*station_, *host_);
  }

 private:
  void collective(const Header&, const Tensor&, const Tensor&) override { host_->barrier(); }
  void post(const Header& header, const Tensor&, int) override { refuse(header); }
  std::shared_ptr<Ticket::Pending> await(const Header& header, const Tensor&, int) override { refuse(header); }
  [[noreturn]] void refuse(const Header& header) const { fail("{} in group {} has no stream", words(header), name()); }

  Ticket begin(const Header& header, const Tensor& out, const Tensor& in, Stream& producer) override {
    return Ticket(go(
        *connection_, bulk_ ? station_->bulk() : station_->crossings(), header, {out, in}, producer,
        [&](ncclComm_t comm, cudaStream_t stream) { return nccl::collective(header, out, in, size(), comm, stream); }));
  }

  void begin_send(const Header& header, const Tensor& tensor, int to, Stream& producer) override {
    prepare_passing();
    require(!is_captured(cuda_stream(producer)), "{} in group {} cannot be part of a graph: nobody waits for it",
            words(header), name());
    const Tensor copy = box_for(tensor);
    producer.copy(copy, tensor);
    Way& way = to > rank() ? *up_ : *down_;
    // Nobody waits for it: the copy stays with the passage until it is through.
    go(way.connection, *way.lane, header, {copy}, producer, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclSend(copy.data(), static_cast<std::size_t>(header.count), type_of(header.dtype), to, comm, stream);
    });
  }

  std::shared_ptr<Ticket::Pending> begin_receive(const Header& header, const Tensor& tensor, int from,
                                                 Stream& producer) override {
    prepare_passing();
    Way& way = from < rank() ? *up_ : *down_;
    return go(way.connection, *way.lane, header, {tensor}, producer, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclRecv(tensor.data(), static_cast<std::size_t>(header.count), type_of(header.dtype), from, comm, stream);
    });
  }

  std::vector<Json> exchange_values(const Header&, const Json& mine) override { return host_->exchange(mine); }

  std::unique_ptr<Group> subgroup(std::vector<int> members, int, std::uint64_t, int colour, std::string name) override {
    auto group = std::make_unique<NcclGroup>(host_->split(colours_of(members, colour), std::move(name)), station_);
    group->bulk_ = bulk_;
    return group;
  }

  template <class Calls>
  std::shared_ptr<Ticket::Pending> go(Connection& connection, Lane& lane, const Header& header,
                                      std::vector<Tensor> tensors, Stream& producer, Calls calls) {
    for (const Tensor& tensor : tensors)
      require(&tensor.device() == &station_->device(),
              "{} in group {} was given numbers on device {}: over NCCL they lie on this rank's own, {}", words(header),
              name(), tensor.device().name(), station_->device().name());
    station_->settle();
    station_->enter_device();
    *account_ = ledger();
    const cudaStream_t stream = cuda_stream(*lane.stream);
    auto passage = std::make_shared<Passage>();
    passage->header = header, passage->group = name(), passage->tensors = std::move(tensors);
    passage->account = account_;
    Mark(cuda_stream(producer)).hold_up(stream);
    const bool captured = is_captured(stream);
    if (!captured) passage->begin.emplace(stream);
    connection.call(words(header) + " in group " + name(), [&](ncclComm_t comm) { return calls(comm, stream); });
    passage->end.emplace(stream);
    if (!captured) station_->watch_over(lane, passage);
    return std::make_shared<UnderWay>(station_, std::move(passage));
  }

  // Memory for a send's copy: one of an earlier send that is through, or more.
  Tensor box_for(const Tensor& tensor) {
    station_->settle();
    for (const Tensor& box : boxes_)
      if (box.sole_owner() && box.dtype() == tensor.dtype() && box.count() >= tensor.count())
        return box.flat().rows(0, tensor.count()).reshaped(tensor.shape());
    boxes_.push_back(station_->device().empty(tensor.shape(), tensor.dtype()));
    return boxes_.back();
  }

  std::unique_ptr<Communicator> host_;
  std::shared_ptr<Station> station_;
  std::shared_ptr<Ledger*> account_ = std::make_shared<Ledger*>(nullptr);  // goes with the group
  std::vector<Tensor> boxes_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Way> up_, down_;
  bool bulk_ = false;
};

}  // namespace
}  // namespace nccl

std::unique_ptr<Communicator> over_nccl(std::unique_ptr<Communicator> host, Device& device, double timeout_seconds) {
  auto watch = host->split([](int) { return 0; }, host->name());
  watch->report_to(nullptr);
  auto station = std::make_shared<nccl::Station>(std::move(watch), device, timeout_seconds);
  return std::make_unique<nccl::NcclGroup>(std::move(host), std::move(station));
}

std::string_view nccl_absent_because() { return {}; }

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace quadrille
