// A failure of oneDNN ends the call in which it came.
#include "runtime/cpu/loops/onednn_status.h"

#include <catch2/catch.hpp>

#include "runtime/base/error.h"

namespace flow::test {

TEST_CASE("what oneDNN could not compute is told once, after the call", "[cpu]") {
  cpu::must_succeed(dnnl_success);
  CHECK_NOTHROW(cpu::throw_failure());
  cpu::must_succeed(dnnl_out_of_memory);
  cpu::must_succeed(dnnl_success);
  CHECK_THROWS_WITH(cpu::throw_failure(), "oneDNN could not compute a step: out_of_memory");
  CHECK_NOTHROW(cpu::throw_failure());
}

}  // namespace flow::test
