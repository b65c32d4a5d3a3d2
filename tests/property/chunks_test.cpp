// The fast kernels on many rows, against the reference.
#include <catch2/catch.hpp>

#include "tests/property/chunk_cases.h"

namespace flow::test {
namespace {

KernelRun run_chunked(const KernelCase& one) { return run_kernel(one, {cpu::fast_kernels()}); }

void require_near_reference(const KernelCase& one) {
  require_near_reference(one, run_chunked(one));
}

}  // namespace

TEST_CASE("batch_norm adds the variance between chunks of rows whose mean drifts", "[property]") {
  require_near_reference(drifting_batch_norm());
}

TEST_CASE("layer_norm's gradients add up every chunk of rows", "[property]") {
  require_near_reference(many_rows_of_layer_norm());
}

TEST_CASE("gather's gradient has all rows and writes no other", "[property]") {
  require_near_reference(many_rows_of_gather_grad());
}

TEST_CASE("sums over the middle axis add up every chunk of rows", "[property]") {
  require_near_reference(many_rows_of_sum());
}

TEST_CASE("lamb uses an epsilon as large as its roots", "[property]") {
  for (const double epsilon : {1e-6, 1e-3, 1e-2}) require_near_reference(lamb_of_epsilon(epsilon));
}

TEST_CASE("centered rmsprop stays finite where rounding makes a variance negative", "[property]") {
  const KernelCase one = canceling_rmsprop();
  require_bounded_steps(one, run_chunked(one), 0.125);
}

}  // namespace flow::test
