// SPDX-License-Identifier: Apache-2.0
#include "parallelism/nccl/connection.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "core/error.h"
#include "parallelism/nccl/station.h"

namespace quadrille::nccl {

namespace {

using Clock = std::chrono::steady_clock;

// An id as text, for the host's exchange: two hexadecimal digits a byte.
std::string text_of(const ncclUniqueId& id) {
  std::string text;
  for (const char byte : id.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

ncclUniqueId id_from(const std::string& text) {
  ncclUniqueId id{};
  require(text.size() == 2 * sizeof id.internal, "an NCCL id of {} letters came, wanted {}", text.size(),
          2 * sizeof id.internal);
  for (std::size_t i = 0; i < sizeof id.internal; ++i) {
    unsigned value = 0;
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, value, 16);
    id.internal[i] = static_cast<char>(value);
  }
  return id;
}

// NCCL's words for a result: the general ones, and its last warning where it left one.
std::string words_of(ncclResult_t result, ncclComm_t comm) {
  const char* last = ncclGetLastError(comm);
  return fmt::format("{}{}{}", ncclGetErrorString(result), last && *last ? ": " : "", last ? last : "");
}

}  // namespace

// The exchange is a barrier too: whoever makes this communicator has finished making all earlier ones.
Connection::Connection(Station& station, Communicator& host)
    : station_(station), group_(host.name()), exceptions_(std::uncaught_exceptions()) {
  Json mine;
  if (host.rank() == 0) {
    ncclUniqueId id{};
    const ncclResult_t made = ncclGetUniqueId(&id);
    require(made == ncclSuccess, "NCCL cannot begin a communicator for group {}: {}", group_, words_of(made, nullptr));
    mine = Json(text_of(id));
  }
  const ncclUniqueId id = id_from(host.exchange(mine).front().string());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  station_.enter_device();
  ncclResult_t result{};
  {
    const std::lock_guard lock(mutex_);
    result = ncclCommInitRankConfig(&comm_, host.size(), id, host.rank(), &config);
  }
  try {
    settle(fmt::format("making the NCCL communicator of {} ranks for group {}", host.size(), group_), result);
  } catch (...) {
    give_up();
    throw;
  }
  station_.add(*this);
}

Connection::~Connection() {
  station_.remove(*this);
  try {
    require(std::uncaught_exceptions() == exceptions_, "others may never come to what is under way");
    call("leaving an NCCL communicator", ncclCommFinalize);
  } catch (...) {  // the world has failed, or fails now: nobody waits for the others
    give_up();
  }
  const std::lock_guard lock(mutex_);
  if (comm_) ncclCommDestroy(comm_);
}

void Connection::call(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& calls) {
  station_.refuse_if_stopped();
  ncclResult_t result{};
  {
    const std::lock_guard lock(mutex_);
    if (comm_) result = calls(comm_);
  }
  settle(what, result);
}

void Connection::settle(const std::string& what, ncclResult_t result) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(station_.timeout_seconds());
  auto pause = std::chrono::microseconds(1);
  while (result == ncclInProgress) {
    station_.refuse_if_stopped();
    require(Clock::now() < deadline, "{} took longer than {:g} s. If it is only slow, raise --timeout", what,
            station_.timeout_seconds());
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
    result = state();
  }
  station_.refuse_if_stopped();
  if (result == ncclSuccess) return;
  const std::lock_guard lock(mutex_);
  fail("{}: NCCL says {}", what, words_of(result, comm_));
}

ncclResult_t Connection::state() {
  const std::lock_guard lock(mutex_);
  ncclResult_t state = ncclSuccess;
  if (!comm_) return state;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  return asked == ncclSuccess ? state : asked;
}

std::string Connection::trouble() {
  const ncclResult_t now = state();
  if (now == ncclSuccess || now == ncclInProgress) return {};
  const std::lock_guard lock(mutex_);
  return fmt::format("the NCCL communicator of group {} reports {}", group_, words_of(now, comm_));
}

void Connection::give_up() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_) ncclCommAbort(std::exchange(comm_, nullptr));
}

}  // namespace quadrille::nccl
