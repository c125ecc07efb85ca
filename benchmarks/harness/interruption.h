// SPDX-License-Identifier: Apache-2.0
// What Ctrl-C and a launcher's SIGTERM do to a run: it ends within a moment, non-zero, with one message and no record.
#pragma once

#include <atomic>

namespace quadrille {

// Alone in its process group: the handler itself speaks and leaves, with exit code 128 + signal.
void leave_on_signals();
// One of several processes that all get the signal: it is noted, for WorldOptions::interrupted, and the world's own
// protocol finds who speaks. The second signal leaves in silence.
const std::atomic<int>* note_signals();

}  // namespace quadrille
