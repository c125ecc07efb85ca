// SPDX-License-Identifier: Apache-2.0
// The machine and the program, as a record keeps them: host, processor, memory, system, compiler, libraries, revision,
// and the environment variables that change speed.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"

namespace quadrille {

std::string cpu_model();            // "AMD EPYC 7763 64-Core Processor", "unknown"
std::string system_name();          // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"
std::int64_t memory_bytes();        // of the host; 0 when unknown
std::int64_t free_memory_bytes();   // what the host could still give (MemAvailable); 0 when unknown
std::int64_t process_peak_bytes();  // largest resident size so far; 0 when unknown
std::string program_name();         // "quadrille 0.1.0"
Json environment_json();

}  // namespace quadrille
