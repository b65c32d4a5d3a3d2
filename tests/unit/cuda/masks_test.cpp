// What a library's masks say of 0 is found out.
#include "runtime/cuda/masks.h"

#include <catch2/catch.hpp>

#include "runtime/cuda/handles.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/naive_libraries.h"

namespace flow::cuda {

TEST_CASE("masks that call a 0 positive are known from those that do not", "[cuda]") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  test::FakeDriver driver;
  {
    NaiveLibraries libraries(driver);
    LibraryKernel kernel = libraries.prepare(product_of_zeros(dtype));
    CHECK(masks_out_zeros(kernel, dtype, driver));

    // One bit of one 0.
    const PinnedBytes one(driver, driver.allocate_pinned(1));
    *one.get() = std::byte{8};
    kernel.run = [&, run = kernel.run](const LibraryBuffers& buffers, Stream stream) {
      run(buffers, stream);
      driver.copy(buffers.aside + 77, one.get(), 1, stream);
    };
    CHECK_FALSE(masks_out_zeros(kernel, dtype, driver));
  }
  CHECK(driver.problems().empty());
}

}  // namespace flow::cuda
