// SPDX-License-Identifier: Apache-2.0
// What this program was built from: compiler, flags, revision, and every library it could use with its version and
// place or the reason for its absence. `quadrille info` prints it and records keep it. The lists are written by CMake.
#pragma once

#include <span>
#include <string_view>

namespace quadrille {

struct Part {
  std::string_view name;     // "oneDNN"
  bool built;                // in this program
  std::string_view version;  // "2.6.3", empty when absent or unknown
  std::string_view path;     // where it was found, empty when absent
  std::string_view remedy;   // of an absent one: why, and the package or flag that brings it
};
std::span<const Part> build_parts();
const Part& build_part(std::string_view name);  // throws Error: no such part

struct BuildFacts {
  std::string_view version;     // of Quadrille
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view flags;       // those given to every file
  std::string_view type;        // "Release"
  std::string_view system;      // built on: "Linux x86_64"
  std::string_view sanitizers;  // "address,undefined", usually empty
  std::string_view revision;    // of the source tree when this program was linked, "unknown" outside a git checkout
  bool modified;                // whether tracked or new files differed from that revision
};
BuildFacts build_facts();

}  // namespace quadrille
