// SPDX-License-Identifier: Apache-2.0
// How threads of a rank wait for one another. Called by main before anything else.
#pragma once

namespace quadrille {

// Lets OpenMP's threads sleep instead of spin while they wait, unless the environment says otherwise (OMP_WAIT_POLICY
// or GOMP_SPINCOUNT). A spinning thread costs its neighbour the core as soon as anything else runs on the machine:
// steps of gpt_tiny beside a compiler took 0.6 to 2.2 s with spinning threads and 0.15 to 0.2 s with sleeping ones. The
// runtime reads its environment while it is loaded, before main, so the program starts itself once more; returns when
// nothing was to be done or the second start was not possible.
void let_threads_sleep(char** arguments);

}  // namespace quadrille
