// SPDX-License-Identifier: Apache-2.0
// Runs the blocks of a launch one after another in the calling thread. The threads of a block are fibres
// (Boost.Context): a thread runs until it meets a barrier or a shuffle, and who goes on next is drawn from the launch's
// seed, so that a missing barrier gives wrong numbers in every run. A thread that never meets one costs a function
// call.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace standin {

inline constexpr std::size_t kSharedBytes = 227 << 10;        // dynamic shared memory a block may have when allowed
inline constexpr std::size_t kSharedBytesDefault = 48 << 10;  // and without asking

// What fresh memory holds: a NaN in f32, f64 and bf16, and no small number as an integer.
inline constexpr std::uint16_t kPoison = 0x7fff;
void poison(std::span<std::byte>);
bool is_poison(std::span<const std::byte>);

std::span<std::byte> dynamic_shared();  // of the calling thread

// Runs work of a library or a copy. Returns what bad address it touched, empty if none; what it had in hand then is
// lost.
std::string touched_by(const std::function<void()>& work);

// Throws std::runtime_error that names kernel, block, thread and what the thread did.
void run_blocks(const Launch&, std::uint64_t seed);

}  // namespace standin
