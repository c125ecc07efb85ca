// SPDX-License-Identifier: Apache-2.0
// NCCL without GPUs. A message is work of a stream, late like all of it: it begins when the stream has come to it, then
// waits for its partners, whose streams are set in motion (Meeting). Messages of one communicator exclude each other, a
// send lasts until it is received, and nothing arrives that was not begun: what would hang on devices hangs here, until
// the communicator is given up or kPatience is over. Stricter than NCCL: ranks that disagree about operation, count,
// type, reduction or root are noticed, and told by ncclCommGetAsyncError; so are numbers that do not lie on the
// communicator's device. Sums run in rank order, so results are those of the host's worlds in all bits.
#include <fmt/core.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parallelism/message.h"
#include "tests/cuda/standin/standin.h"

namespace {

using quadrille::DType;
using quadrille::Reduce;

std::atomic<std::int64_t> taken = 0;

constexpr auto kPatience = std::chrono::seconds(60);

enum class What { all_reduce, all_gather, reduce_scatter, broadcast, send, receive };

const char* name_of(What what) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "receive"};
  return kNames[static_cast<int>(what)];
}

DType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt32:
      return DType::i32;
    case ncclFloat32:
      return DType::f32;
    case ncclFloat64:
      return DType::f64;
    case ncclBfloat16:
      return DType::bf16;
  }
  return DType::f32;
}

struct Call {
  What what;
  DType type;
  std::int64_t count;
  Reduce reduce = Reduce::sum;
  int peer = -1;  // or root
  const void* in = nullptr;
  void* out = nullptr;
  bool done = false;

  std::int64_t bytes() const { return count * quadrille::size_of(type); }
  bool agrees(const Call& o) const {
    return what == o.what && type == o.type && count == o.count && reduce == o.reduce && peer == o.peer;
  }
  std::string words() const {
    std::string text = fmt::format("{} of {} {}", name_of(what), count, quadrille::name_of(type));
    if (reduce == Reduce::max) text += " (max)";
    if (peer >= 0) text += fmt::format(", rank {}", peer);
    return text;
  }
};
using Calls = std::vector<std::shared_ptr<Call>>;

// All ranks of one communicator.
struct Club {
  explicit Club(int ranks) : size(ranks), devices(static_cast<std::size_t>(ranks), -1) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::vector<int> devices;
  std::string error;                                                     // the first; stays
  std::map<std::uint64_t, std::map<int, std::shared_ptr<Call>>> rounds;  // collectives: who has come
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Call>>> sends, receives;

  void come(int rank, std::uint64_t round, const std::shared_ptr<Call>&);
  void forget(const std::shared_ptr<Call>&);  // its rank was given up
  void meet(int from, int to);
};

}  // namespace

struct ncclComm {
  std::shared_ptr<Club> club;
  int rank = 0, device = 0;
  std::uint64_t round = 0;  // of collectives, counted as they run; this and the next two: guarded by the club
  bool busy = false, given_up = false;
};

namespace {

using Members = std::map<int, std::shared_ptr<Call>>;

std::byte* at(void* base, std::int64_t bytes) { return static_cast<std::byte*>(base) + bytes; }
void copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

// Once all have come, one thread does the work of all. Parts in place are those of their rank, so nothing is
// overwritten before it was read: sums are made apart first.
void work(const Members& members) {
  const Call& first = *members.begin()->second;
  const int size = static_cast<int>(members.size());
  const std::int64_t bytes = first.bytes();
  std::vector<const void*> parts;
  for (const auto& [rank, call] : members) parts.push_back(call->in);
  switch (first.what) {
    case What::all_reduce: {
      std::vector<std::byte> sum(static_cast<std::size_t>(bytes));
      if (bytes > 0) quadrille::combine_in_rank_order(first.reduce, first.type, parts, first.count, sum.data());
      for (const auto& [rank, call] : members) copy(call->out, sum.data(), bytes);
      break;
    }
    case What::reduce_scatter: {
      std::vector<std::vector<std::byte>> sums;
      for (int rank = 0; bytes > 0 && rank < size; ++rank) {
        std::vector<const void*> theirs;
        for (const void* part : parts) theirs.push_back(static_cast<const std::byte*>(part) + rank * bytes);
        sums.emplace_back(static_cast<std::size_t>(bytes));
        quadrille::combine_in_rank_order(first.reduce, first.type, theirs, first.count, sums.back().data());
      }
      for (const auto& [rank, call] : members)
        if (bytes > 0) copy(call->out, sums[static_cast<std::size_t>(rank)].data(), bytes);
      break;
    }
    case What::all_gather:
      for (const auto& [rank, call] : members)
        for (int peer = 0; bytes > 0 && peer < size; ++peer)
          copy(at(call->out, peer * bytes), parts[static_cast<std::size_t>(peer)], bytes);
      break;
    case What::broadcast:
      for (const auto& [rank, call] : members) copy(call->out, parts[static_cast<std::size_t>(first.peer)], bytes);
      break;
    case What::send:
    case What::receive:
      break;
  }
}

void Club::come(int rank, std::uint64_t round, const std::shared_ptr<Call>& call) {
  if (call->what == What::send) {
    sends[{rank, call->peer}].push_back(call);
    return meet(rank, call->peer);
  }
  if (call->what == What::receive) {
    receives[{call->peer, rank}].push_back(call);
    return meet(call->peer, rank);
  }
  Members& members = rounds[round];
  members[rank] = call;
  if (static_cast<int>(members.size()) < size) return;
  for (const auto& [other, theirs] : members)
    if (!theirs->agrees(*members.begin()->second) && error.empty())
      error = fmt::format("the ranks disagree: rank {} called {}; rank {} called {}", members.begin()->first,
                          members.begin()->second->words(), other, theirs->words());
  if (!error.empty()) return;
  work(members);
  for (const auto& [other, theirs] : members) theirs->done = true;
  rounds.erase(round);
}

void Club::forget(const std::shared_ptr<Call>& call) {
  for (auto& [round, members] : rounds)
    std::erase_if(members, [&](const auto& member) { return member.second == call; });
  for (auto* queues : {&sends, &receives})
    for (auto& [pair, queue] : *queues) std::erase(queue, call);
}

void Club::meet(int from, int to) {
  auto &out = sends[{from, to}], &in = receives[{from, to}];
  while (!out.empty() && !in.empty() && error.empty()) {
    Call &send = *out.front(), &receive = *in.front();
    if (send.count != receive.count || send.type != receive.type) {
      error = fmt::format("the ranks disagree: rank {} called {}; rank {} called {}", from, send.words(), to,
                          receive.words());
      return;
    }
    copy(receive.out, send.in, send.bytes());
    send.done = receive.done = true;
    out.pop_front(), in.pop_front();
  }
}

// The calls of one group, or one call alone, when the stream has come to them. What an error leaves undone waits to be
// given up, as kernels do.
void run(const std::shared_ptr<ncclComm>& comm, const Calls& calls) {
  const standin::Meeting meeting;
  Club& club = *comm->club;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::unique_lock lock(club.mutex);
  const auto patiently = [&](auto good) {
    if (!club.changed.wait_until(lock, until, [&] { return comm->given_up || good(); }))
      standin::fail(fmt::format("NCCL waited in vain: rank {} in {}{}", comm->rank, calls.front()->words(),
                                club.error.empty() ? "" : "; " + club.error));
  };
  patiently([&] { return !comm->busy; });
  if (comm->given_up) return;
  comm->busy = true;
  for (const auto& call : calls) {
    call->done = false;  // of an earlier replay
    club.come(comm->rank, call->what < What::send ? comm->round++ : 0, call);
  }
  club.changed.notify_all();
  patiently([&] { return std::all_of(calls.begin(), calls.end(), [](const auto& call) { return call->done; }); });
  for (const auto& call : calls)
    if (!call->done) club.forget(call);
  comm->busy = false;
  club.changed.notify_all();
}

struct Registry {
  std::mutex mutex;
  std::uint64_t ids = 0;
  std::map<std::string, std::shared_ptr<Club>> clubs;  // whose ranks are still joining
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> comms;
};
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

std::shared_ptr<ncclComm> known(ncclComm_t comm) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().comms.find(comm);
  return found == registry().comms.end() ? nullptr : found->second;
}

struct Grouped {
  std::shared_ptr<ncclComm> comm;
  cudaStream_t stream;
  Calls calls;
};
thread_local int depth = 0;
thread_local std::vector<Grouped> grouped;

ncclResult_t enqueue(const Grouped& group) {
  const cudaError_t queued = standin::enqueue(
      group.stream, std::string("nccl ") + name_of(group.calls.front()->what),
      [comm = group.comm, calls = group.calls] { run(comm, calls); }, true);
  return queued == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t submit(ncclComm_t handle, cudaStream_t stream, const Call& call) {
  ++taken;
  const auto comm = known(handle);
  if (!comm) return ncclInvalidArgument;
  const auto complain = [&](const std::string& text) {
    const std::lock_guard lock(comm->club->mutex);
    if (comm->club->error.empty()) comm->club->error = text;
    return ncclInvalidArgument;
  };
  if (call.peer >= comm->club->size) return complain(fmt::format("{} names a rank that is not there", call.words()));
  if (standin::device_of(stream) != comm->device)
    return complain(fmt::format("{} on a stream of device {}, the communicator is of device {}", call.words(),
                                standin::device_of(stream), comm->device));
  for (const void* numbers : {call.in, static_cast<const void*>(call.out)})
    if (call.count > 0 && numbers && standin::device_of(numbers) != comm->device)
      return complain(fmt::format("{} of numbers on device {}, the communicator is of device {}", call.words(),
                                  standin::device_of(numbers), comm->device));
  const auto shared = std::make_shared<Call>(call);
  if (depth == 0) return enqueue({comm, stream, {shared}});
  const auto place = std::find_if(grouped.begin(), grouped.end(),
                                  [&](const Grouped& g) { return g.comm == comm && g.stream == stream; });
  if (place != grouped.end())
    place->calls.push_back(shared);
  else
    grouped.push_back({comm, stream, {shared}});
  return ncclSuccess;
}

Reduce reduce_of(ncclRedOp_t op) { return op == ncclMax ? Reduce::max : Reduce::sum; }

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
    case ncclInternalError:
    case ncclRemoteError:
      break;
  }
  return "internal error";
}

const char* ncclGetLastError(ncclComm_t handle) {
  thread_local std::string text;
  text.clear();
  if (const auto comm = known(handle)) {
    const std::lock_guard lock(comm->club->mutex);
    text = comm->club->error;
  }
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(registry().mutex);
  *id = {};
  const std::string name = fmt::format("stand-in {}", ++registry().ids);
  std::copy(name.begin(), name.end(), id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;  // nobody here may block
  const auto comm = std::make_shared<ncclComm>();
  comm->rank = rank;
  cudaGetDevice(&comm->device);
  {
    const std::lock_guard lock(registry().mutex);
    auto& club = registry().clubs[id.internal];
    if (!club) club = std::make_shared<Club>(ranks);
    comm->club = club;
    registry().comms[comm.get()] = comm;
  }
  Club& club = *comm->club;
  const std::lock_guard lock(club.mutex);
  *handle = comm.get();
  if (ranks != club.size || rank < 0 || rank >= ranks || club.devices[static_cast<std::size_t>(rank)] >= 0)
    club.error = fmt::format("rank {} of {} joins a communicator of {}", rank, ranks, club.size);
  const auto same = std::find(club.devices.begin(), club.devices.end(), comm->device);
  if (same != club.devices.end())
    club.error = fmt::format("Duplicate GPU detected: rank {} and rank {} both on CUDA device {}", rank,
                             same - club.devices.begin(), comm->device);
  if (club.error.empty()) club.devices[static_cast<std::size_t>(rank)] = comm->device;
  if (++club.joined == club.size) {
    const std::lock_guard door(registry().mutex);
    registry().clubs.erase(id.internal);
  }
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  const auto comm = known(handle);
  if (!comm) return ncclInvalidArgument;
  const std::lock_guard lock(comm->club->mutex);
  *result = !comm->club->error.empty()              ? ncclInvalidUsage
            : comm->club->joined < comm->club->size ? ncclInProgress
                                                    : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

// Messages still queued keep what they need.
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const std::lock_guard lock(registry().mutex);
  return registry().comms.erase(handle) == 1 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const auto comm = known(handle);
  if (!comm) return ncclInvalidArgument;
  {
    const std::lock_guard lock(comm->club->mutex);
    comm->given_up = true;
  }
  comm->club->changed.notify_all();
  return ncclCommDestroy(handle);
}

std::int64_t standin::nccl_calls() { return taken; }

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t n, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, stream,
                {What::all_reduce, type_of(type), static_cast<std::int64_t>(n), reduce_of(op), -1, in, out});
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t n, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, stream, {What::all_gather, type_of(type), static_cast<std::int64_t>(n), {}, -1, in, out});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t n, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, stream,
                {What::reduce_scatter, type_of(type), static_cast<std::int64_t>(n), reduce_of(op), -1, in, out});
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, stream, {What::broadcast, type_of(type), static_cast<std::int64_t>(n), {}, root, in, out});
}
ncclResult_t ncclSend(const void* in, std::size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit(comm, stream, {What::send, type_of(type), static_cast<std::int64_t>(n), {}, peer, in, nullptr});
}
ncclResult_t ncclRecv(void* out, std::size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, stream, {What::receive, type_of(type), static_cast<std::int64_t>(n), {}, peer, nullptr, out});
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const Grouped& group : std::exchange(grouped, {}))
    if (const ncclResult_t queued = enqueue(group); queued != ncclSuccess) result = queued;
  return result;
}
