// SPDX-License-Identifier: Apache-2.0
// Links of a stated speed, emulated: every message takes at least as long as a ring would need over them. Waiting for
// the imaginary link sleeps and costs no core, so what overlap is worth can be shown on a machine whose own messages
// are copies in memory. Whatever is measured over such links is evidence of kind `emulated`. Used by the programs.
#pragma once

#include <memory>
#include <set>
#include <string_view>

#include "core/json.h"
#include "parallelism/communicator.h"

namespace quadrille {

struct Links {
  double bandwidth_bytes_per_s = 0;  // at which one rank sends, all its messages together
  double latency_s = 0;              // of one step of a ring
  double timeout_s = 60;             // a message that would need longer even alone is refused: its ranks would give up
};
Links links_from(const Json&);                 // {"bandwidth_bytes_per_s": 1e9, "latency_s": 1e-5}; throws Error
Links links_from_text(std::string_view text);  // "1e9,1e-5"; the latency may be left out; throws Error

// The same world; its collectives and those of later splits are complete no sooner than latency * steps + bytes /
// bandwidth after their beginning, with the bytes and steps of a ring (all-reduce 2(n-1) steps, others n-1). A send
// waits that long, with one step, before it sends, so that it arrives no sooner; a receive waits for what is sent.
// Messages of a rank that are under way at the same time share its bandwidth fairly. Barriers, exchanges and groups of
// one are not slowed down. Every wait is counted as part of its message: in the ledger, and in the trace as "...
// (link)".
std::unique_ptr<Communicator> over_links(std::unique_ptr<Communicator> world, const Links&);

// How the messages of a rank share its bandwidth: while k are under way, each moves at 1/k of it. Times are given by
// the caller, so that it can be tested without waiting.
class SharedLink {
 public:
  explicit SharedLink(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}
  // A message begins. It is through when `moved` has reached the number returned.
  double begin(double now, double bytes);
  // Seconds until that is so, if nothing else begins; 0: it is through.
  double remaining(double now, double goal);

 private:
  void advance(double now);
  double bytes_per_s_;
  double moved_ = 0;             // bytes of a message that has been under way all the time
  double at_ = 0;                // the moment up to which they are counted
  std::multiset<double> goals_;  // of those under way
};

}  // namespace quadrille
