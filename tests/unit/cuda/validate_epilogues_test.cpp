// What a library does aside of a product is found out, of each product on its own.
#include "runtime/cuda/libraries/validate_epilogues.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "runtime/base/array.h"
#include "runtime/base/element_types.h"
#include "runtime/cuda/program/passes.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/job_builder.h"

namespace flow::cuda {
namespace {

/// Its masks of results with so many columns take one 0 for positive.
class LooseLibraries : public NaiveLibraries {
 public:
  LooseLibraries(Driver& driver, int64_t columns)
      : NaiveLibraries(driver), driver_(driver), columns_(columns) {}
  Expected<LibraryKernel> find(const MatmulSpec& spec) override {
    LibraryKernel kernel = NaiveLibraries::find(spec).value();
    if (spec.aside != Aside::kStoreMask || spec.out[1] != columns_) return kernel;
    kernel.try_run = [this, kernel](const LibraryBuffers& buffers, Stream stream) {
      kernel.run(buffers, stream);
      driver_.copy(buffers.aside + 20, &kOne, 1, stream);
      return std::nullopt;
    };
    return kernel;
  }

 private:
  static constexpr std::byte kOne{8};
  Driver& driver_;
  int64_t columns_;
};

/// Something is done after each of its products.
class SpoiltLibraries : public NaiveLibraries {
 public:
  using Spoil = std::function<void(const LibraryBuffers&, Stream)>;
  SpoiltLibraries(Driver& driver, Spoil spoil) : NaiveLibraries(driver), spoil_(std::move(spoil)) {}
  Expected<LibraryKernel> find(const MatmulSpec& spec) override {
    LibraryKernel kernel = NaiveLibraries::find(spec).value();
    kernel.try_run = [this, kernel](const LibraryBuffers& buffers, Stream stream) {
      kernel.run(buffers, stream);
      spoil_(buffers, stream);
      return std::nullopt;
    };
    return kernel;
  }

 private:
  Spoil spoil_;
};

/// The gradients of both ReLUs of z = relu(relu(x W) V) U, given dz.
plan::Job two_layers(int64_t first, int64_t second) {
  test::JobBuilder b;
  const auto product = [&](const char* name, plan::TensorId left, plan::TensorId right, bool of_b,
                           Shape shape) {
    return b.step("matmul", name, {left, right}, {{"transpose_a", false}, {"transpose_b", of_b}},
                  std::move(shape));
  };
  const auto x = b.input("x", {4, first}), dz = b.input("dz", {4, 2});
  const auto w = b.variable("w", {first, first}), v = b.variable("v", {first, second});
  const auto u = b.variable("u", {second, 2});
  const auto y = product("y", x, w, false, {4, first});
  b.fuse("relu", {}, {});
  const auto z = product("z", y, v, false, {4, second});
  b.fuse("relu", {}, {});
  const auto back = product("back", dz, u, true, {4, second});
  const auto dv = b.step("relu_grad", "inner", {back, z}, {}, {4, second});
  const auto further = product("further", dv, v, true, {4, first});
  b.step("relu_grad", "outer", {further, y}, {}, {4, first});
  return b.build();
}

Array filled(DType dtype, const Shape& shape, double value) {
  Array array(dtype, shape);
  visit_float(dtype,
              [&]<typename T>(T) { std::ranges::fill(array.as<T>(), static_cast<T>(value)); });
  return array;
}

/// The ReLU gradients that stand apart where masks with so many columns are loose.
std::vector<std::string> apart(const plan::Job& job, int64_t loose, int64_t tried) {
  test::FakeDriver driver;
  LooseLibraries libraries(driver, loose);
  const plan::Job fused =
      fuse_gradients(job, std::vector<size_t>(job.steps.size()), {}, libraries, driver);
  CHECK(driver.count("launch naive_matmul") == tried);
  CHECK(driver.problems().empty());
  std::vector<std::string> names = test::step_names(fused);
  std::erase_if(names, [](const std::string& name) { return name != "inner" && name != "outer"; });
  return names;
}

}  // namespace

TEST_CASE("masks that call a 0 positive are known from those that do not", "[cuda]") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  const bool bias = GENERATE(false, true);
  const MatmulSpec spec{.dtype = dtype,
                        .a = {9, 3},
                        .b = {130, 9},
                        .out = {3, 130},
                        .transpose_a = true,
                        .transpose_b = true,
                        .epilogue = {.bias = bias, .relu = true},
                        .aside = Aside::kStoreMask};
  test::FakeDriver driver;
  NaiveLibraries strict(driver);
  LooseLibraries loose(driver, 130);
  CHECK(passes_validation(strict.find(spec).value(), spec, driver));
  CHECK_FALSE(passes_validation(loose.find(spec).value(), spec, driver));
  CHECK(driver.problems().empty());
}

TEST_CASE("sums and masked products that are wrong are known from those that are right", "[cuda]") {
  const DType dtype = GENERATE(DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  const Aside aside = GENERATE(Aside::kReadMask, Aside::kSumsOfA, Aside::kSumsOfB);
  const MatmulSpec spec{.dtype = dtype,
                        .a = {9, 3},
                        .b = {9, 130},
                        .out = {3, 130},
                        .transpose_a = true,
                        .aside = aside};
  test::FakeDriver driver;
  NaiveLibraries right(driver);
  const auto one_bit = [&driver](std::byte* LibraryBuffers::*where) {
    return [&driver, where](const LibraryBuffers& buffers, Stream stream) {
      static constexpr std::byte kBit{8};
      driver.copy(buffers.*where, &kBit, 1, stream);
    };
  };
  SpoiltLibraries wrong_product(driver, one_bit(&LibraryBuffers::out));
  CHECK(passes_validation(right.find(spec).value(), spec, driver));
  CHECK_FALSE(passes_validation(wrong_product.find(spec).value(), spec, driver));
  if (aside == Aside::kReadMask) {
    SpoiltLibraries lets_nothing_pass(driver, [&](const LibraryBuffers& buffers, Stream stream) {
      driver.clear(buffers.out, bytes_of(spec.out, sum_of(dtype)), stream);
    });
    CHECK_FALSE(passes_validation(lets_nothing_pass.find(spec).value(), spec, driver));
  } else {
    SpoiltLibraries wrong_sums(driver, one_bit(&LibraryBuffers::aside));
    CHECK_FALSE(passes_validation(wrong_sums.find(spec).value(), spec, driver));
    // As if the names of both sums were the wrong way around.
    SpoiltLibraries other_sums(driver, [&](const LibraryBuffers& buffers, Stream stream) {
      const bool of_a = aside == Aside::kSumsOfA;
      const Array others = filled(sum_of(dtype), Shape{spec.out[of_a ? 0 : 1]}, of_a ? 18 : 9);
      driver.copy(buffers.aside, others.bytes().data(), others.bytes().size(), stream);
    });
    CHECK_FALSE(passes_validation(other_sums.find(spec).value(), spec, driver));
  }
  CHECK(driver.problems().empty());
}

TEST_CASE("a mask whose bits are of other elements is known", "[cuda]") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  const bool bias = GENERATE(false, true), transposed = GENERATE(false, true);
  const Shape out{40, 130};
  const MatmulSpec writer{.dtype = dtype,
                          .a = transposed ? Shape{9, 40} : Shape{40, 9},
                          .b = transposed ? Shape{130, 9} : Shape{9, 130},
                          .out = out,
                          .transpose_a = transposed,
                          .transpose_b = transposed,
                          .epilogue = {.bias = bias, .relu = true},
                          .aside = Aside::kStoreMask};
  const MatmulSpec reader{
      .dtype = dtype, .a = {40, 5}, .b = {5, 130}, .out = out, .aside = Aside::kReadMask};
  test::FakeDriver driver;
  NaiveLibraries right(driver);
  const LibraryKernel writing = right.find(writer).value(), reading = right.find(reader).value();
  CHECK(reads_mask_of({reading, reader}, {writing, writer}, driver));
  // All bits are there, and as many: those of two rows are exchanged, or all move by one.
  const auto rows = static_cast<size_t>(mask_shape(out)[1]);
  SpoiltLibraries exchanges_rows(driver, [&](const LibraryBuffers& b, Stream stream) {
    std::vector<std::byte> first(rows), last(rows);
    driver.copy(first.data(), b.aside, rows, stream);
    driver.copy(last.data(), b.aside + 39 * rows, rows, stream);
    driver.copy(b.aside, last.data(), rows, stream);
    driver.copy(b.aside + 39 * rows, first.data(), rows, stream);
  });
  SpoiltLibraries moves_bits(driver, [&](const LibraryBuffers& b, Stream stream) {
    std::vector<std::byte> mask(static_cast<size_t>(mask_shape(out).elements()));
    driver.copy(mask.data(), b.aside, mask.size(), stream);
    for (size_t i = 0; i < mask.size(); ++i)
      if (i % rows < 16) mask[i] = mask[i] << 1 | mask[i] >> 7;  // not the last, of two columns
    driver.copy(b.aside, mask.data(), mask.size(), stream);
  });
  for (SpoiltLibraries* wrong : {&exchanges_rows, &moves_bits}) {
    const LibraryKernel kernel = wrong->find(writer).value();
    CHECK(passes_validation(kernel, writer, driver));  // what is all alike does not show it
    CHECK_FALSE(reads_mask_of({reading, reader}, {kernel, writer}, driver));
  }
  CHECK(driver.problems().empty());
}

TEST_CASE("a product that the library refuses to run is not used, but a failure is thrown",
          "[cuda]") {
  const MatmulSpec spec{.dtype = DType::kFloat32,
                        .a = {3, 9},
                        .b = {9, 130},
                        .out = {3, 130},
                        .epilogue = {.relu = true}};
  test::FakeDriver driver;
  NaiveLibraries libraries(driver);
  LibraryKernel refused = libraries.find(spec).value();
  refused.try_run = [](const LibraryBuffers&, Stream) { return RunError("no such product"); };
  CHECK_FALSE(passes_validation(refused, spec, driver));
  CHECK_THROWS_WITH(refused.run({}, {}), "no such product");
  SpoiltLibraries failing(
      driver, [](const LibraryBuffers&, Stream) { throw RunError("the device fails"); });
  CHECK_THROWS_WITH(passes_validation(failing.find(spec).value(), spec, driver),
                    "the device fails");
  CHECK(driver.problems().empty());
}

TEST_CASE("a ReLU's gradient stands apart where its own product's mask is wrong", "[cuda]") {
  using Names = std::vector<std::string>;
  CHECK(apart(two_layers(5, 7), 1, 14).empty());
  CHECK(apart(two_layers(5, 7), 5, 8) == Names{"outer"});
  CHECK(apart(two_layers(5, 7), 7, 8) == Names{"inner"});
  CHECK(apart(two_layers(5, 5), 1, 11).empty());  // two products alike are tried once
  CHECK(apart(two_layers(5, 5), 5, 1) == Names{"inner", "outer"});
}

}  // namespace flow::cuda
