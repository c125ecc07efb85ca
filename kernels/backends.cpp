// SPDX-License-Identifier: Apache-2.0
#include "kernels/backend.h"

#include <fmt/ranges.h>

#include <array>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace quadrille {

namespace {

std::unique_ptr<Device> open_host(int) { return make_host_device(); }
std::unique_ptr<Device> open_counting(int) { return make_counting_device(); }

}  // namespace

std::span<const Backend> backends() {
  static const std::array<Backend, 4> all{{
      {.name = "reference",
       .open_device = open_host,
       .ops = reference_ops,
       .use_threads = nullptr,
       .absent_because = "",
       .timed_claims = false},
      cpu_backend(),
      cuda_backend(),
      {.name = "counting",
       .open_device = open_counting,
       .ops = counting_ops,
       .use_threads = nullptr,
       .absent_because = "",
       .timed_claims = false},
  }};
  return all;
}

const Backend& backend_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Backend& backend : backends()) {
    if (backend.name != name) {
      names.emplace_back(backend.name);
      continue;
    }
    require(backend.absent_because.empty(), "back end \"{}\" is not in this build: {}", name, backend.absent_because);
    return backend;
  }
  const std::string near = nearest(name, names);
  fail("unknown back end \"{}\": {}the known ones are {}", name,
       near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near), fmt::join(names, ", "));
}

}  // namespace quadrille
