// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator: made by all members of a group together, used by the rank's own thread, and given up by
// whichever thread learns first that the world has failed. NCCL is told not to block, so no call of it can hang: what
// takes long is looked after in short steps, between which a failure is noticed. Used by station.h and group.cpp.
#pragma once

#include <nccl.h>

#include <functional>
#include <mutex>
#include <string>

#include "parallelism/communicator.h"

namespace quadrille::nccl {

class Station;

class Connection {
 public:
  // A collective call of the host's group, whose ranks are these. Throws Error: NCCL refuses, or not all come in time.
  Connection(Station&, Communicator& host);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Makes calls of NCCL and returns when it has taken them all. `what`: for messages. Throws Error or, when the world
  // has failed, Poisoned.
  void call(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& calls);
  std::string trouble();    // what NCCL noticed by itself; empty: nothing
  void give_up() noexcept;  // ends messages under way; what they were to write is undefined

 private:
  void settle(const std::string& what, ncclResult_t);
  ncclResult_t state();

  Station& station_;
  const std::string group_;
  const int exceptions_;  // under way at birth
  std::mutex mutex_;      // of the next
  ncclComm_t comm_ = nullptr;
};

}  // namespace quadrille::nccl
