// SPDX-License-Identifier: Apache-2.0
// Unpacking what gzip or zlib packed: inflate_zlib.cpp, or its absence (inflate_absent.cpp). Used by the readers of R's
// data and of images, and by fetch.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quadrille {

// The whole, of at most `limit` bytes. Throws Error: damaged, truncated, larger, or bytes follow. `name` stands in
// messages.
std::string inflate_bytes(std::string_view compressed, std::size_t limit, const std::string& name);
// The first `bytes` bytes, fewer when there are fewer; what comes later is not looked at.
std::string inflate_start(std::string_view compressed, std::size_t bytes, const std::string& name);

}  // namespace quadrille
