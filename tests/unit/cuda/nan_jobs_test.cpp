// NaN in the data reaches what a job makes on the CUDA backend; a library's relu is tried for it.
#include <catch2/catch.hpp>

#include "runtime/cuda/libraries/validate_epilogues.h"
#include "tests/property/nan_cases.h"
#include "tests/support/cuda/deaf_libraries.h"
#include "tests/support/cuda/fake_gpu.h"

namespace flow::test {
namespace {

using cuda::Aside;
using cuda::MatmulSpec;

}  // namespace

TEST_CASE("NaN in the data reaches the result and the variables on the CUDA backend", "[cuda]") {
  const std::string precision = GENERATE("float32", "float64", "mixed_bfloat16");
  for (const NanJob& one : nan_jobs("relu", precision)) {
    FakeGpu gpu;
    RunJob options;
    options.backend = gpu.backend.get();
    require_nan_reaches_result(one, options);
    CHECK(gpu.driver->problems().empty());
  }
}

TEST_CASE("a relu that makes 0 of NaN fails its validation, and so does its mask", "[cuda]") {
  const Aside aside = GENERATE(Aside::kNothing, Aside::kStoreMask);
  const MatmulSpec spec{.dtype = DType::kFloat32,
                        .a = {3, 9},
                        .b = {9, 130},
                        .out = {3, 130},
                        .epilogue = {.bias = true, .relu = true},
                        .aside = aside};
  FakeDriver driver;
  cuda::NaiveLibraries right(driver);
  DeafLibraries deaf(driver);
  CHECK(cuda::passes_validation(right.find(spec).value(), spec, driver));
  CHECK_FALSE(cuda::passes_validation(deaf.find(spec).value(), spec, driver));
  CHECK(driver.problems().empty());
}

}  // namespace flow::test
