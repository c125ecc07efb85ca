// SPDX-License-Identifier: Apache-2.0
// How threads of a rank wait for one another. Called by main before anything else.
#pragma once

namespace quadrille {

// Lets OpenMP's threads spin for some microseconds and then sleep while they wait, unless the environment chooses
// (OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME). By default they spin for milliseconds, which takes the core from
// whatever else runs: steps of gpt_tiny beside a compiler took 0.6 to 2.2 s that way and 0.15 to 0.3 s so; on an idle
// machine 77 ms that way, 64 ms so, 71 to 85 ms when they sleep at once (medians on 2 cores, GCC's runtime). The
// runtime reads its environment while it is loaded, before main, so the program starts itself once more; returns when
// nothing was to be done or the second start was not possible.
void spin_briefly_then_sleep(char** arguments);

}  // namespace quadrille
