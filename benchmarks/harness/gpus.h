// SPDX-License-Identifier: Apache-2.0
// GPUs as the command line and the screen know them: options become a choice, what there is becomes a table. Used by
// run, check and info.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/record.h"
#include "benchmarks/options.h"
#include "core/json.h"
#include "kernels/backend.h"
#include "parallelism/communicator.h"
#include "parallelism/rank_device.h"
#include "training/config.h"

namespace quadrille {

DeviceChoice device_choice(const DeviceOptions&, double timeout_seconds);
// Throws Error: options for GPUs with a back end that computes on the host.
void refuse_gpu_options(const Backend&, const DeviceOptions&);

std::string devices_text();  // a table of all GPUs that the back ends of this build see, or one line that says why none
// Names, versions of driver and libraries; an empty object for a back end of the host. Throws Error: no device.
Json devices_json(const Backend&);

// Collective: the GPUs in use, by their ids, on this rank's host.
std::vector<std::string> gpus_of_host(Communicator& world, const RankDevice&);
// Collective. Every GPU in use probes at the same time; the sum, and the data sheet's where all are of one known kind.
Peak measure_gpu_peak(Communicator& world, const RankDevice&, const Backend&, const TrainingConfig&, double seconds,
                      const Json& datasheets);

// Throws Error when the ranks that share a GPU need more memory than it has free.
void refuse_more_than_device(const RankDevice&, double forecast_bytes);

}  // namespace quadrille
