// The test program's main function, and what is put right before each test.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

#ifdef __SSE__
#include <xmmintrin.h>

namespace {

/// Calls of a program flush denormals on the thread that launches them; in tests that is the main
/// thread, whose next test may be about denormals.
struct DenormalsRestored : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo&) override {
    constexpr unsigned kDefault = 0x1F80;
    _mm_setcsr(kDefault);
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(DenormalsRestored)
#endif
