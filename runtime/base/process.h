// What the system's books say of this process.
#pragma once

#include <cstdint>

namespace flow {

/// Seconds since the process was started; 0 where the system keeps no account of it.
double process_age();

/// The most bytes that it has had resident.
uint64_t peak_memory();

}  // namespace flow
