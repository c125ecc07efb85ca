// SPDX-License-Identifier: Apache-2.0
// The state of the source tree at the last build, in a file of its own: it is written anew by every build
// (scripts/cmake/revision.cmake), and only when it changed, so that a commit recompiles these few lines and nothing
// else.
#pragma once

#include <string_view>

namespace quadrille {

struct Revision {
  std::string_view name;  // 40 hexadecimal digits, or "unknown"
  bool modified;
};
Revision source_revision();

}  // namespace quadrille
