// A library that lacks an epilogue, and epilogue ops that no epilogue expresses.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/kernel.h"
#include "tests/support/cuda/deaf_libraries.h"
#include "tests/support/cuda/fake_driver.h"

namespace flow::test {
namespace {

/// Products and convolutions with the epilogues allowed, others not.
class PickyLibraries : public cuda::Libraries {
 public:
  PickyLibraries(cuda::Driver& driver, bool bias, bool relu)
      : naive_(driver), bias_(bias), relu_(relu) {}
  Expected<cuda::LibraryKernel> find(const cuda::MatmulSpec& spec) override { return pick(spec); }
  Expected<cuda::LibraryKernel> find(const cuda::ConvolutionSpec& spec) override {
    return pick(spec);
  }
  Expected<cuda::AttentionKernel> find(const cuda::AttentionSpec& spec) override {
    return naive_.find(spec);
  }
  Expected<cuda::RecurrentKernel> find(const cuda::RecurrentSpec& spec) override {
    return naive_.find(spec);
  }
  std::map<std::string, std::string> versions() const override { return {}; }

 private:
  template <typename Spec>
  Expected<cuda::LibraryKernel> pick(const Spec& spec) {
    if ((spec.epilogue.bias && !bias_) || (spec.epilogue.relu && !relu_))
      return RunError("no such epilogue");
    return naive_.find(spec);
  }

  cuda::NaiveLibraries naive_;
  bool bias_, relu_;
};

struct Product {
  std::vector<float> out;
  int64_t launches;
};

/// out [2, 2] = relu([[1, -2], [3, 4]] [[1, 0], [0, 1]] + bias), bias along `axis`.
Product run_product(FakeDriver& driver, cuda::Libraries& libraries, int64_t axis) {
  cuda::Checks checks;
  plan::Step step;
  step.op = step.name = "matmul";
  step.attributes.set("transpose_a", false);
  step.attributes.set("transpose_b", false);
  plan::EpilogueOp bias{"bias_add", "bias", {}, {}}, relu{"relu", "relu", {}, {}};
  bias.attributes.set("axis", axis);
  step.epilogue = {bias, relu};
  const cuda::TensorDesc matrix{"matrix", DType::kFloat32, {2, 2}};
  const cuda::Request request{
      {step, {matrix, matrix}, {matrix}, {{{"bias", DType::kFloat32, {2}}}, {}}, 1},
      {},
      driver,
      libraries,
      checks};
  const cuda::Kernel kernel = cuda::find_kernel("matmul")->prepare(request);
  const cuda::Stream stream = driver.create_stream();
  const auto upload = [&](std::vector<float> values) {
    std::byte* memory = driver.allocate(values.size() * sizeof(float));
    driver.copy(memory, values.data(), values.size() * sizeof(float), stream);
    return memory;
  };
  std::byte* const inputs[] = {upload({1, -2, 3, 4}), upload({1, 0, 0, 1})};
  std::byte* const outputs[] = {upload({0, 0, 0, 0})};
  std::byte* const biases[] = {upload({-2, 1})};
  const std::span<std::byte* const> operands[] = {biases, {}};
  driver.forget_calls();
  kernel.launch({inputs, outputs, operands}, {driver, stream, nullptr, nullptr});
  Product product{std::vector<float>(4), driver.count("launch")};
  driver.copy(product.out.data(), outputs[0], 4 * sizeof(float), stream);
  driver.synchronize(stream);
  for (std::byte* memory : {inputs[0], inputs[1], outputs[0], biases[0]}) driver.release(memory);
  driver.destroy(stream);
  return product;
}

Product run_product(bool bias_fuses, bool relu_fuses, int64_t axis) {
  FakeDriver driver;
  PickyLibraries libraries(driver, bias_fuses, relu_fuses);
  return run_product(driver, libraries, axis);
}

const std::vector<float> kAlongColumns = {0, 0, 1, 5};  // relu of -1 -1, 1 5
const std::vector<float> kAlongRows = {0, 0, 4, 5};     // relu of -1 -4, 4 5

}  // namespace

TEST_CASE("posts that the library has are part of its launch", "[cuda]") {
  const Product product = run_product(true, true, 1);
  CHECK(product.out == kAlongColumns);
  CHECK(product.launches == 1);
}

TEST_CASE("a post that the library lacks is a launch of its own", "[cuda]") {
  const Product product = run_product(true, false, 1);
  CHECK(product.out == kAlongColumns);
  CHECK(product.launches == 2);
}

TEST_CASE("a relu is a launch of its own where the library's makes 0 of NaN", "[cuda]") {
  FakeDriver driver;
  DeafLibraries libraries(driver);
  const Product product = run_product(driver, libraries, 1);
  CHECK(product.out == kAlongColumns);
  CHECK(product.launches == 2);
}

TEST_CASE("posts keep their order where the library lacks the first", "[cuda]") {
  const Product product = run_product(false, true, 1);
  CHECK(product.out == kAlongColumns);
  CHECK(product.launches == 3);
}

TEST_CASE("a bias along another axis than the library's is a launch of its own", "[cuda]") {
  const Product product = run_product(true, true, 0);
  CHECK(product.out == kAlongRows);
  CHECK(product.launches == 3);
}

}  // namespace flow::test
