// The capabilities of this CPU. Loops can be compiled for them although the binary runs on any
// x86-64.
#pragma once

#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

#include <string>

namespace flow::cpu {

/// Returns the widest instruction set that oneDNN uses on this CPU, such as "avx512_core_amx".
std::string instruction_set();

/// Returns the bits of the vectors of that instruction set if it has a fused multiply-add (512 or
/// 256), otherwise 128.
int vector_bits();

/// Returns true if products of this 16-bit dtype are faster than those of float32 on this CPU. This
/// is the case for bfloat16 if the CPU has tiles (AMX), or bfloat16 instructions that run at full
/// speed.
bool multiplies_low_precision(DType dtype);

/// Returns the version, such as "2.6.3".
std::string onednn_version();

/// Returns the number of cores that this process may run on, which is at least 1. Hyperthreads of
/// one core count once.
int usable_cores();

}  // namespace flow::cpu
