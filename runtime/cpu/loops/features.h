// What this CPU can do, and how loops are compiled for it while the binary runs on any x86-64.
#pragma once

#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

#include <string>

namespace flow::cpu {

/// The widest instruction set that oneDNN uses here: "avx512_core_amx".
std::string instruction_set();

/// Of vectors of that instruction set, where it multiplies and adds at once: 512, 256; else 128.
int vector_bits();

/// Do products of that 16-bit dtype pay here? They do for bfloat16 where the CPU has tiles (AMX),
/// or instructions that are as fast as they should be; else they are computed in float32.
bool multiplies_low_precision(DType dtype);

/// "2.6.3"
std::string onednn_version();

/// Cores that this process may run on, hyperthreads of one core counted once. At least 1.
int usable_cores();

}  // namespace flow::cpu
