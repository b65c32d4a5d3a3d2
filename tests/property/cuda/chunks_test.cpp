// CUDA's kernels on many rows, against the reference.
#include <catch2/catch.hpp>

#include "tests/property/chunk_cases.h"
#include "tests/property/cuda/device_case.h"

namespace flow::test {
namespace {

KernelRun run_chunked(const KernelCase& one) { return run_on_device(one).run; }

void require_near_reference(const KernelCase& one) {
  require_near_reference(one, run_chunked(one));
}

}  // namespace

TEST_CASE("batch_norm on CUDA adds the variance between chunks of rows whose mean drifts",
          "[cuda]") {
  require_near_reference(drifting_batch_norm());
}

TEST_CASE("layer_norm's gradients on CUDA add up every chunk of rows", "[cuda]") {
  require_near_reference(many_rows_of_layer_norm());
}

TEST_CASE("lamb on CUDA uses an epsilon as large as its roots", "[cuda]") {
  for (const double epsilon : {1e-6, 1e-3, 1e-2}) require_near_reference(lamb_of_epsilon(epsilon));
}

TEST_CASE("centered rmsprop on CUDA stays finite where rounding makes a variance negative",
          "[cuda]") {
  const KernelCase one = canceling_rmsprop();
  require_bounded_steps(one, run_chunked(one), 0.125);
}

}  // namespace flow::test
