// Loops compiled for what the CPU has.
#pragma once

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
