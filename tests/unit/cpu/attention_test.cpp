// Attention where random numbers do not reach: large scores, NaN, nothing to see, what is hidden.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/property/kernel_case.h"

namespace flow::test {
namespace {

const std::string kAttention = "scaled_dot_product_attention";
const std::string kGrad = "scaled_dot_product_attention_grad";

std::vector<std::pair<std::string, plan::Attribute>> attributes(bool causal, double scale = 1) {
  return {{"causal", causal}, {"scale", scale}};
}

std::vector<float> floats(const Array& array) {
  return {array.as<float>().begin(), array.as<float>().end()};
}

/// The results of both kernels.
std::vector<KernelRun> runs_of(const KernelCase& one) {
  return {run_kernel(one, {cpu::fast_kernels()}), run_kernel(one, {cpu::reference_kernels()})};
}

}  // namespace

TEST_CASE("Scores too large for exp give the value of the best key", "[cpu]") {
  const KernelCase one{kAttention,
                       attributes(false, 1000),
                       {array_of<float>({1, 1}, {1}), array_of<float>({3, 1}, {1, 3, 2}),
                        array_of<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
                       {{DType::kFloat32, {1, 2}}, {DType::kFloat32, {1}}}};
  for (const KernelRun& run : runs_of(one)) {
    CHECK(floats(run.outputs[0]) == std::vector<float>{3, 4});
    CHECK(floats(run.outputs[1]) == std::vector<float>{3000});
  }
}

TEST_CASE("A query that sees nothing is 0 and gives no gradient", "[cpu]") {
  const Array mask = array_of<bool>({2, 1}, {false, true});
  const Array query = array_of<float>({2, 1}, {1, 2}), key = array_of<float>({2, 1}, {3, 3}),
              value = array_of<float>({2, 1}, {5, 7});
  const KernelCase forward{kAttention,
                           attributes(false),
                           {query, key, value, mask},
                           {{DType::kFloat32, {2, 1}}, {DType::kFloat32, {2}}}};
  for (const KernelRun& run : runs_of(forward)) {
    CHECK(floats(run.outputs[0]) == std::vector<float>{0, 6});
    CHECK(floats(run.outputs[1])[0] == 0);
    const KernelCase backward{
        kGrad,
        attributes(false),
        {array_of<float>({2, 1}, {1, 1}), query, key, value, run.outputs[0], run.outputs[1], mask},
        {{DType::kFloat32, {2, 1}}, {DType::kFloat32, {2, 1}}, {DType::kFloat32, {2, 1}}}};
    for (const KernelRun& gradients : runs_of(backward)) {
      CHECK(floats(gradients.outputs[0]) == std::vector<float>{0, 0});
      CHECK(std::abs(floats(gradients.outputs[2])[0] - 0.5f) < 1e-6f);
    }
  }
}

TEST_CASE("With causal the first query sees the first key alone, however many there are", "[cpu]") {
  for (const int64_t keys : {1, 2, 5, 300}) {
    Random random(3);
    const Array key = random_array(random, DType::kFloat32, {keys, 4});
    const Array value = random_array(random, DType::kFloat32, {keys, 3});
    const KernelCase one{kAttention,
                         attributes(true),
                         {random_array(random, DType::kFloat32, {4, 4}), key, value},
                         {{DType::kFloat32, {4, 3}}, {DType::kFloat32, {4}}}};
    for (const KernelRun& run : runs_of(one))
      for (size_t i = 0; i < 3; ++i) CHECK(floats(run.outputs[0])[i] == floats(value)[i]);
  }
}

TEST_CASE("From the bottom right, a few queries see what the last ones of all see", "[cpu]") {
  constexpr int64_t kKeys = 300, kQueries = 7;
  Random random(5);
  const Array query = random_array(random, DType::kFloat32, {kKeys, 4}),
              key = random_array(random, DType::kFloat32, {kKeys, 4}),
              value = random_array(random, DType::kFloat32, {kKeys, 3});
  const KernelCase all{kAttention,
                       attributes(true),
                       {query, key, value},
                       {{DType::kFloat32, {kKeys, 3}}, {DType::kFloat32, {kKeys}}}};
  Array last(DType::kFloat32, {kQueries, 4});
  std::ranges::copy(query.as<float>().last(last.as<float>().size()), last.as<float>().begin());
  auto aligned = attributes(true);
  aligned.emplace_back("diagonal", kKeys - kQueries);
  const KernelCase few{kAttention,
                       aligned,
                       {last, key, value},
                       {{DType::kFloat32, {kQueries, 3}}, {DType::kFloat32, {kQueries}}}};
  const std::vector<KernelRun> of_all = runs_of(all), of_few = runs_of(few);
  for (size_t i = 0; i < of_all.size(); ++i) {
    const auto made = of_few[i].outputs[0].as<float>();
    const auto expected = of_all[i].outputs[0].as<float>().last(made.size());
    for (size_t k = 0; k < made.size(); ++k) CHECK(std::abs(made[k] - expected[k]) < 1e-6f);
  }
}

TEST_CASE("From the bottom right, queries before the first key are 0", "[cpu]") {
  auto aligned = attributes(true);
  aligned.emplace_back("diagonal", int64_t{-2});
  const Array query = array_of<float>({3, 1}, {1, 1, 1}), key = array_of<float>({1, 1}, {2}),
              value = array_of<float>({1, 1}, {5}), ones = query;
  const KernelCase forward{kAttention,
                           aligned,
                           {query, key, value},
                           {{DType::kFloat32, {3, 1}}, {DType::kFloat32, {3}}}};
  for (const KernelRun& run : runs_of(forward)) {
    CHECK(floats(run.outputs[0]) == std::vector<float>{0, 0, 5});
    CHECK(floats(run.outputs[1]) == std::vector<float>{0, 0, 2});
    const KernelCase backward{
        kGrad,
        aligned,
        {ones, query, key, value, run.outputs[0], run.outputs[1]},
        {{DType::kFloat32, {3, 1}}, {DType::kFloat32, {1, 1}}, {DType::kFloat32, {1, 1}}}};
    for (const KernelRun& gradients : runs_of(backward)) {
      CHECK(floats(gradients.outputs[0]) == std::vector<float>{0, 0, 0});
      CHECK(floats(gradients.outputs[2]) == std::vector<float>{1});
    }
  }
}

TEST_CASE("A NaN in a query spoils its own result alone", "[cpu]") {
  Random random(4);
  Array query = random_array(random, DType::kFloat32, {3, 2});
  query.as<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  const KernelCase one{kAttention,
                       attributes(false),
                       {query, random_array(random, DType::kFloat32, {4, 2}),
                        random_array(random, DType::kFloat32, {4, 1})},
                       {{DType::kFloat32, {3, 1}}, {DType::kFloat32, {3}}}};
  for (const KernelRun& run : runs_of(one)) {
    CHECK(std::isfinite(floats(run.outputs[0])[0]));
    CHECK(std::isnan(floats(run.outputs[0])[1]));
    CHECK(std::isfinite(floats(run.outputs[0])[2]));
  }
}

/// Attention of 70 queries over as many keys, and its gradients. `hidden`: what hides some of them.
struct AttentionCalls {
  std::vector<std::pair<std::string, plan::Attribute>> with;
  std::vector<Array> hidden;
  Array query, key, value, dy;

  KernelRun forward(std::span<const cpu::KernelEntry> kernels) const {
    KernelCase one{kAttention,
                   with,
                   {query, key, value},
                   {{DType::kFloat32, {1, 70, 2}}, {DType::kFloat32, {1, 70}}}};
    one.inputs.insert(one.inputs.end(), hidden.begin(), hidden.end());
    return run_kernel(one, {kernels});
  }
  KernelRun backward(std::span<const cpu::KernelEntry> kernels) const {
    const KernelRun made = forward(kernels);
    KernelCase one{kGrad,
                   with,
                   {dy, query, key, value, made.outputs[0], made.outputs[1]},
                   {{DType::kFloat32, {1, 70, 3}},
                    {DType::kFloat32, {1, 70, 3}},
                    {DType::kFloat32, {1, 70, 2}}}};
    one.inputs.insert(one.inputs.end(), hidden.begin(), hidden.end());
    return run_kernel(one, {kernels});
  }
};

AttentionCalls attention_calls(std::vector<std::pair<std::string, plan::Attribute>> with,
                               std::vector<Array> hidden) {
  Random random(5);
  const auto made = [&](int64_t depth) {
    return random_array(random, DType::kFloat32, {1, 70, depth});
  };
  return {std::move(with), std::move(hidden), made(3), made(3), made(2), made(2)};
}

/// Row `row` of (1, 70, depth) becomes NaN and infinite.
void spoil_row(Array& array, int64_t row) {
  const auto depth = static_cast<size_t>(array.shape()[2]);
  const auto values = array.as<float>().subspan(static_cast<size_t>(row) * depth, depth);
  std::ranges::fill(values, kNan);
  values[0] = kInfinity;
}

std::vector<float> rows_of(const Array& array, int64_t first, int64_t end) {
  const std::vector<float> all = floats(array);
  const int64_t depth = array.shape().elements() / 70;
  return {all.begin() + first * depth, all.begin() + end * depth};
}

TEST_CASE("A key that nothing sees leaves no trace, whatever it holds", "[cpu]") {
  Array mask(DType::kBool, {70, 70}), bias(DType::kFloat32, {70, 70});
  std::ranges::fill(mask.as<bool>(), true);
  std::ranges::fill(bias.as<float>(), 0.5f);
  for (size_t query = 0; query < 70; ++query) {
    mask.as<bool>()[query * 70 + 33] = false;
    bias.as<float>()[query * 70 + 33] = -kInfinity;
  }
  const std::vector<std::vector<Array>> hiding = {
      {mask}, {bias}, {array_of<int64_t>({1}, {33})}, {mask, bias}};
  for (const std::vector<Array>& hidden : hiding)
    for (const auto kernels : {cpu::fast_kernels(), cpu::reference_kernels()}) {
      const AttentionCalls clean = attention_calls(attributes(false), hidden);
      AttentionCalls spoiled = clean;
      spoil_row(spoiled.key, 33);
      spoil_row(spoiled.value, 33);
      CHECK(floats(spoiled.forward(kernels).outputs[0]) ==
            floats(clean.forward(kernels).outputs[0]));
      const KernelRun made = spoiled.backward(kernels), expected = clean.backward(kernels);
      for (size_t i = 0; i < 3; ++i) CHECK(floats(made.outputs[i]) == floats(expected.outputs[i]));
    }
}

TEST_CASE("A key spoils the rows that see it, and a query the keys that it sees", "[cpu]") {
  const int64_t window = GENERATE(0, 20);
  auto with = attributes(true);
  if (window > 0) with.emplace_back("window", window);
  const int64_t end = window > 0 ? 33 + window : 70;  // of the queries that see key 33
  for (const auto kernels : {cpu::fast_kernels(), cpu::reference_kernels()}) {
    const AttentionCalls clean = attention_calls(with, {});
    AttentionCalls spoiled = clean;
    spoil_row(spoiled.value, 33);
    const auto compare = [&](const Array& made, const Array& expected) {
      CHECK(rows_of(made, 0, 33) == rows_of(expected, 0, 33));
      CHECK(rows_of(made, end, 70) == rows_of(expected, end, 70));
      for (const float x : rows_of(made, 33, end)) CHECK_FALSE(std::isfinite(x));
    };
    compare(spoiled.forward(kernels).outputs[0], clean.forward(kernels).outputs[0]);
    compare(spoiled.backward(kernels).outputs[0], clean.backward(kernels).outputs[0]);
    AttentionCalls blind = clean;
    spoil_row(blind.query, 33);
    const KernelRun made = blind.backward(kernels), expected = clean.backward(kernels);
    for (const size_t i : {1, 2}) {
      CHECK(rows_of(made.outputs[i], 34, 70) == rows_of(expected.outputs[i], 34, 70));
      CHECK_FALSE(std::isfinite(rows_of(made.outputs[i], 33, 34)[0]));
    }
  }
}

TEST_CASE("A row without keys is 0", "[cpu]") {
  const Array nothing = array_of<float>({2, 1, 1}, {3, 4}),
              lengths = array_of<int64_t>({2}, {0, 1});
  const Array ones = array_of<float>({2, 1, 1}, {1, 1});
  const KernelCase forward{kAttention,
                           attributes(false),
                           {ones, nothing, nothing, lengths},
                           {{DType::kFloat32, {2, 1, 1}}, {DType::kFloat32, {2, 1}}}};
  for (const KernelRun& run : runs_of(forward)) {
    CHECK(floats(run.outputs[0]) == std::vector<float>{0, 4});
    CHECK(floats(run.outputs[1]) == std::vector<float>{0, 4});
  }
  const KernelCase grad{
      kGrad,
      attributes(false),
      {ones, ones, nothing, nothing, array_of<float>({2, 1, 1}, {0, 4}),
       array_of<float>({2, 1}, {0, 4}), lengths},
      {{DType::kFloat32, {2, 1, 1}}, {DType::kFloat32, {2, 1, 1}}, {DType::kFloat32, {2, 1, 1}}}};
  for (const KernelRun& run : runs_of(grad)) {
    CHECK(floats(run.outputs[0]) == std::vector<float>{0, 0});
    CHECK(floats(run.outputs[1]) == std::vector<float>{0, 0});
    CHECK(floats(run.outputs[2]) == std::vector<float>{0, 1});
  }
}

TEST_CASE("A length out of range is a fault, and attends to the keys that there are", "[cpu]") {
  const Array one = array_of<float>({2, 1, 1}, {1, 1});
  const KernelCase forward{kAttention,
                           attributes(false),
                           {one, one, one, array_of<int32_t>({2}, {1, 2})},
                           {{DType::kFloat32, {2, 1, 1}}, {DType::kFloat32, {2, 1}}}};
  for (const KernelRun& run : runs_of(forward)) {
    REQUIRE(run.fault);
    CHECK(run.fault->row == 1);
    CHECK(run.fault->value == 2);
    CHECK(run.fault->limit == 2);
    CHECK(floats(run.outputs[0]) == std::vector<float>{1, 1});
  }
}

TEST_CASE("Queries whose window lies behind the last key are 0", "[cpu]") {
  auto windowed = attributes(true);
  windowed.emplace_back("window", int64_t{1});
  const KernelCase forward{kAttention,
                           windowed,
                           {array_of<float>({3, 1}, {1, 1, 1}), array_of<float>({2, 1}, {1, 1}),
                            array_of<float>({2, 1}, {5, 7})},
                           {{DType::kFloat32, {3, 1}}, {DType::kFloat32, {3}}}};
  for (const KernelRun& run : runs_of(forward))
    CHECK(floats(run.outputs[0]) == std::vector<float>{5, 7, 0});
}

}  // namespace flow::test
