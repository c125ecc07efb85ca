// SPDX-License-Identifier: Apache-2.0
// How a run cuts its model where that cannot be read off the mesh: the layers of a pipeline's stages, key/value heads
// that several ranks hold. For the screens of plan and run, and for the record.
#pragma once

#include <string>

#include "benchmarks/harness/experiment.h"

namespace quadrille {

// On how many ranks the same key/value head lies while attention works, where heads rest, pass or are turned to; 1:
// each on one.
int key_value_replicas(const Experiment&);
std::string pipeline_text(const PipelineReport&);   // several indented lines; empty with one stage
std::string replicas_text(int key_value_replicas);  // a line; empty when there are none

}  // namespace quadrille
