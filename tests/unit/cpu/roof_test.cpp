// What the CPU does at most.
#include "runtime/exec/core/profile.h"

#include <catch2/catch.hpp>

#include <cmath>

#include "runtime/cpu/backend/backend.h"

using namespace flow;

TEST_CASE("the roof of a CPU is measured in every precision", "[cpu]") {
  const auto backend = cpu::make_backend();
  for (const char* precision : {"float32", "float64", "mixed_bfloat16"}) {
    INFO(precision);
    plan::Job job;
    job.precision = precision;
    const exec::Roof roof = exec::measure_roof(*backend, job, 1);
    CHECK(roof.flops > 1e6);
    CHECK(roof.bytes > 1e6);
    CHECK(std::isfinite(roof.flops));
    CHECK(std::isfinite(roof.bytes));
  }
}
