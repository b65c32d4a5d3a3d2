// Kernels that pick elements: indices out of range, ties, NaN; and blocks of every size moved.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/element_types.h"
#include "tests/property/kernel_case.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;

template <typename Check>
void on_both(const KernelCase& one, Check check) {
  check(run_kernel(one, {cpu::fast_kernels()}));
  check(run_kernel(one, {cpu::reference_kernels()}));
}

void require_fault(const KernelCase& one, int64_t row, int64_t value, int64_t limit) {
  on_both(one, [&](const KernelRun& run) {
    REQUIRE(run.fault);
    CHECK(run.fault->operand == "operand");
    CHECK(run.fault->row == row);
    CHECK(run.fault->value == value);
    CHECK(run.fault->limit == limit);
  });
}

/// The k largest along axis 1 of x [2, n, 3], and their places: NaN before all, equals in order.
std::vector<Array> largest_of(const Array& x, int64_t k) {
  const int64_t n = x.shape()[1];
  std::vector<Array> made{Array(x.dtype(), {2, k, 3}), Array(DType::kInt64, {2, k, 3})};
  visit_number(x.dtype(), [&]<typename T>(T) {
    for (int64_t c = 0; c < 6; ++c) {
      const auto at = [&](int64_t extent, int64_t i) {
        return static_cast<size_t>((c / 3 * extent + i) * 3 + c % 3);
      };
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int64_t i, int64_t j) {
        const T a = x.as<T>()[at(n, i)], b = x.as<T>()[at(n, j)];
        return a > b || (a != a && b == b);
      });
      for (int64_t j = 0; j < k; ++j) {
        made[1].as<int64_t>()[at(k, j)] = order[static_cast<size_t>(j)];
        made[0].as<T>()[at(k, j)] = x.as<T>()[at(n, order[static_cast<size_t>(j)])];
      }
    }
  });
  return made;
}

}  // namespace

TEST_CASE("the first index out of range is a fault, and what it picks is zero", "[cpu]") {
  const KernelCase gather{
      "gather",
      {{"axis", int64_t{0}}},
      {array_of<float>({2, 2}, {1, 2, 3, 4}), array_of<int8_t>({4}, {1, -1, 2, 0})},
      {{DType::kFloat32, {4, 2}}}};
  require_fault(gather, 1, -1, 2);
  on_both(gather, [](const KernelRun& run) {
    const auto out = run.outputs[0].as<float>();
    CHECK(std::vector<float>(out.begin(), out.end()) == std::vector<float>{3, 4, 0, 0, 0, 0, 1, 2});
  });
  require_fault(
      {"one_hot",
       {{"depth", int64_t{3}}, {"on_value", 1.0}, {"off_value", 0.0}, {"dtype", DType::kBool}},
       {array_of<int32_t>({3}, {0, 2, 3})},
       {{DType::kBool, {3, 3}}}},
      2, 3, 3);
}

// UndefinedBehaviorSanitizer reports the place of such an index, which overflows.
TEST_CASE("an index near 2^63 is a fault whatever picks by it", "[cpu]") {
  const int64_t bad = GENERATE(INT64_MIN, INT64_MIN + 1, INT64_MAX);
  const std::vector<std::pair<std::string, plan::Attribute>> along = {{"axis", int64_t{0}}};
  const Array indices = array_of<int64_t>({3}, {1, bad, 0});
  const Array rows = array_of<float>({2, 2}, {1, 2, 3, 4}), row = array_of<float>({2}, {1, 2});
  const Array updates = array_of<float>({3, 2}, {1, 2, 3, 4, 5, 6}),
              numbers = array_of<float>({3}, {1, 2, 3});
  require_fault({"gather", along, {rows, indices}, {{DType::kFloat32, {3, 2}}}}, 1, bad, 2);
  for (const char* op : {"scatter_add", "scatter_update"})
    require_fault({op, along, {rows, indices, updates}, {{DType::kFloat32, {2, 2}}}}, 1, bad, 2);
  require_fault({"take_along_axis", along, {row, indices}, {{DType::kFloat32, {3}}}}, 1, bad, 2);
  for (const char* op : {"put_along_axis", "add_along_axis"})
    require_fault({op, along, {row, indices, numbers}, {{DType::kFloat32, {2}}}}, 1, bad, 2);
  require_fault({"sparse_softmax_cross_entropy_with_logits",
                 {},
                 {indices, updates},
                 {{DType::kFloat32, {3}}, {DType::kFloat32, {3, 2}}}},
                1, bad, 2);
}

TEST_CASE("updates of a vector are added in the order of the indices on any threads", "[cpu]") {
  Random random(4);
  const Shape updates{50'000};
  for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
    KernelCase one{"add_along_axis", {{"axis", int64_t{0}}}, {}, {{dtype, {1000}}}};
    one.inputs = {random_array(random, dtype, {1000}),
                  random_labels(random, DType::kInt32, updates, 1000),
                  random_array(random, dtype, updates)};
    Array expected = one.inputs[0];
    visit_number(dtype, [&]<typename T>(T) {
      for (size_t i = 0; i < 50'000; ++i)
        expected.as<T>()[static_cast<size_t>(one.inputs[1].as<int32_t>()[i])] +=
            one.inputs[2].as<T>()[i];
    });
    for (const int threads : {1, 3}) {
      KernelSettings settings{cpu::fast_kernels()};
      settings.threads = threads;
      const KernelRun got = run_kernel(one, settings);
      CHECK(std::ranges::equal(got.outputs[0].bytes(), expected.bytes()));
    }
  }
}

TEST_CASE("gradients of indices out of range go nowhere", "[cpu]") {
  on_both({"gather_grad",
           {{"axis", int64_t{0}}, {"extent", int64_t{2}}},
           {array_of<int32_t>({4}, {1, -1, 2, 1}), array_of<float>({4}, {1, 2, 4, 8})},
           {{DType::kFloat32, {2}}}},
          [](const KernelRun& run) {
            CHECK(run.outputs[0].as<float>()[0] == 0);
            CHECK(run.outputs[0].as<float>()[1] == 9);
          });
}

TEST_CASE("what is scattered adds up, and the first index out of range is a fault", "[cpu]") {
  KernelCase one{"scatter_add",
                 {{"axis", int64_t{0}}},
                 {array_of<float>({2}, {1, 2}), array_of<int32_t>({4}, {1, 0, 1, 1}),
                  array_of<float>({4}, {1, 2, 4, 8})},
                 {{DType::kFloat32, {2}}}};
  const auto require = [&](std::vector<float> expected) {
    on_both(one, [&](const KernelRun& run) {
      CHECK(std::ranges::equal(run.outputs[0].as<float>(), expected));
    });
  };
  require({3, 15});
  one.inputs[1].as<int32_t>()[2] = 2;
  require_fault(one, 2, 2, 2);
  require({3, 11});
}

TEST_CASE("indices along an axis out of range are a fault, and nothing is written there", "[cpu]") {
  KernelCase one{
      "take_along_axis",
      {{"axis", int64_t{1}}},
      {array_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}), array_of<int64_t>({2, 2}, {2, 0, -1, 1})},
      {{DType::kFloat32, {2, 2}}}};
  const auto require = [&](std::vector<float> expected) {
    require_fault(one, 2, -1, 3);
    on_both(one, [&](const KernelRun& run) {
      CHECK(std::ranges::equal(run.outputs[0].as<float>(), expected));
    });
  };
  require({3, 1, 0, 5});
  one.inputs.push_back(array_of<float>({2, 2}, {10, 20, 30, 40}));
  one.results = {{DType::kFloat32, {2, 3}}};
  one.op = "put_along_axis";
  require({20, 2, 10, 4, 40, 6});
  one.op = "add_along_axis";
  require({21, 2, 13, 4, 45, 6});
}

TEST_CASE("of equal indices the last one writes", "[cpu]") {
  on_both({"scatter_update",
           {{"axis", int64_t{0}}},
           {array_of<int8_t>({3, 2}, {1, 2, 3, 4, 5, 6}), array_of<int32_t>({3}, {2, 0, 2}),
            array_of<int8_t>({3, 2}, {7, 8, 9, 10, 11, 12})},
           {{DType::kInt8, {3, 2}}}},
          [](const KernelRun& run) {
            CHECK(std::ranges::equal(run.outputs[0].as<int8_t>(),
                                     std::vector<int8_t>{9, 10, 3, 4, 11, 12}));
          });
}

TEST_CASE("the largest come first, the first of equals before the others, a NaN before all",
          "[cpu]") {
  const float nan = std::nanf("");
  on_both({"top_k",
           {{"axis", int64_t{0}}, {"k", int64_t{5}}},
           {array_of<float>({6}, {2, 7, nan, 7, 2, nan})},
           {{DType::kFloat32, {5}}, {DType::kInt64, {5}}}},
          [](const KernelRun& run) {
            const auto places = run.outputs[1].as<int64_t>();
            CHECK(Integers(places.begin(), places.end()) == Integers{2, 5, 1, 3, 0});
            CHECK(std::isnan(run.outputs[0].as<float>()[1]));
            CHECK(run.outputs[0].as<float>()[2] == 7);
          });
}

TEST_CASE("the largest of columns of any length are those of the reference", "[cpu]") {
  Random random(8);
  const float rare[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, -NAN, 1e-45F};
  for (const DType dtype :
       {DType::kFloat32, DType::kInt8, DType::kUInt8, DType::kInt32, DType::kInt64})
    for (const int64_t n : {1, 17, 64, 300})
      for (const int64_t k : {int64_t{1}, n / 9 + 1, n / 2 + 1, n}) {
        INFO(name_of(dtype) << ": " << k << " of " << n);
        Array x = random_array(random, dtype, {2, n, 3});
        if (dtype == DType::kFloat32)
          for (float& value : x.as<float>())
            if (random() % 3 == 0) value = rare[random() % std::size(rare)];
        const KernelCase one{"top_k",
                             {{"axis", int64_t{1}}, {"k", k}},
                             {x},
                             {{dtype, {2, k, 3}}, {DType::kInt64, {2, k, 3}}}};
        const KernelRun fast = run_kernel(one, {cpu::fast_kernels()});
        const std::vector<Array> expected = largest_of(x, k);
        for (const size_t output : {0, 1})
          REQUIRE(std::ranges::equal(fast.outputs[output].bytes(), expected[output].bytes()));
      }
}

TEST_CASE("matrices of every size around a tile's are transposed", "[cpu]") {
  Random random(6);
  for (const int64_t rows : {1, 7, 31, 32, 33, 64, 97})
    for (const int64_t columns : {1, 8, 31, 32, 33, 70}) {
      INFO(rows << " x " << columns);
      const Array x = random_array(random, DType::kFloat32, {3, rows, columns});
      const KernelCase one{
          "transpose", {{"perm", Integers{0, 2, 1}}}, {x}, {{DType::kFloat32, {3, columns, rows}}}};
      Array expected(DType::kFloat32, {3, columns, rows});
      for (int64_t i = 0; i < x.shape().elements(); ++i) {
        const int64_t row = i / columns % rows, start = i / (rows * columns) * rows * columns;
        expected.as<float>()[static_cast<size_t>(start + i % columns * rows + row)] =
            x.as<float>()[static_cast<size_t>(i)];
      }
      const Array fast = run_kernel(one, {cpu::fast_kernels()}).outputs[0];
      REQUIRE(std::ranges::equal(fast.bytes(), expected.bytes()));
    }
}

}  // namespace flow::test
