// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/on_standin.h"
