// FLOW_SANITIZED: defined where this program is built with sanitizers.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLOW_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define FLOW_SANITIZED
#endif
#endif

namespace flow::test {

/// Sanitizers try one of this many cases of a kind: each takes ten times as long, and the plain
/// build tries them all.
#ifdef FLOW_SANITIZED
inline constexpr int kCasesPerTried = 8;
#else
inline constexpr int kCasesPerTried = 1;
#endif

}  // namespace flow::test
