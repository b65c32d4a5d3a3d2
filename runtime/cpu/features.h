// What this CPU can do, and how loops are compiled for it while the binary runs on any x86-64.
#pragma once

#include <string>

namespace flow::cpu {

/// The widest instruction set that oneDNN uses here: "avx512_core_amx".
std::string instruction_set();

/// "2.6.3"
std::string onednn_version();

/// Cores that this process may run on, hyperthreads of one core counted once. At least 1.
int usable_cores();

}  // namespace flow::cpu

/// Before a function that is a loop: compiles it for AVX-512, for AVX2 and for any x86-64; the
/// loader picks. Not under sanitizers, whose run-time is not up yet when the loader asks.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLOW_VECTORISED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FLOW_VECTORISED
#endif
#endif
#ifndef FLOW_VECTORISED
#define FLOW_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
