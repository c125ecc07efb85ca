// SPDX-License-Identifier: Apache-2.0
// Images that need no download: each class has a coarse pattern, an image is the pattern of its class, moved by some
// pixels (around the edges), with noise over it. For speed, for tests, and for a first run that learns something.
#pragma once

#include "datasets/dataset.h"

namespace quadrille {

// {"source": "synthetic_images", "height": 32, "width": 32, "colours": 3, "classes": 10, "noise": 1, "process_seed": 1,
//  "train_images": 50000, "evaluate_images": 10000}
Datasets open_synthetic_images(const Json& config);

}  // namespace quadrille
