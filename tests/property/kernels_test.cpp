// Every fast kernel against the reference, in both layouts, on any number of threads.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/property/tolerance.h"
#include "tests/support/sanitized.h"

namespace flow::test {
namespace {

constexpr int kCases = 25 / kCasesPerTried;

/// Calls check(case) for random calls of every kernel of the list.
template <typename Check>
void for_random_cases(Check check) {
  for (const cpu::KernelEntry& entry : cpu::fast_kernels()) {
    const std::string op(entry.op);
    Random random(static_cast<Random::result_type>(op.size() * 1000 + op.front()));
    for (int i = 0; i < kCases; ++i) {
      const KernelCase one = random_case(op, random);
      INFO(one.str());
      check(one);
    }
  }
}

}  // namespace

TEST_CASE("fast kernels give what the reference gives, in both layouts", "[property]") {
  for_random_cases([](const KernelCase& one) {
    const KernelRun expected = run_kernel(one, {cpu::reference_kernels()});
    const KernelRun plain = run_kernel(one, {cpu::fast_kernels()});
    for (size_t i = 0; i < one.results.size(); ++i)
      require_near(one, plain.outputs[i], expected.outputs[i]);
    if (!takes_channels_last(one)) return;
    INFO("channels last");
    const KernelRun last = run_kernel(one, {cpu::fast_kernels(), cpu::Layout::kChannelsLast});
    for (size_t i = 0; i < one.results.size(); ++i)
      require_near(one, last.outputs[i], expected.outputs[i]);
  });
}

TEST_CASE("rows beside each other are as good as rows one by one, however many there are",
          "[property]") {
  const std::string op = GENERATE("softmax", "log_softmax");
  const int64_t inner = GENERATE(15, 16, 17, 64, 65, 130), n = GENERATE(1, 2, 21);
  Random random(static_cast<Random::result_type>(inner * n));
  const Shape shape{3, n, inner};
  const std::vector<std::pair<std::string, plan::Attribute>> axis{{"axis", int64_t{1}}};
  const auto check = [](const KernelCase& one) {
    INFO(one.str());
    const KernelRun alone = run_kernel(one, {cpu::fast_kernels()});
    const KernelRun expected = run_kernel(one, {cpu::reference_kernels()});
    require_near(one, alone.outputs[0], expected.outputs[0]);
    CHECK(same_bits(alone, run_kernel(one, {cpu::fast_kernels(), cpu::Layout::kPlain, 3})));
    return expected.outputs[0];
  };
  const Array x = random_array(random, DType::kFloat32, shape);
  const Array y = check({op, axis, {x}, {{DType::kFloat32, shape}}});
  const Array dy = random_array(random, DType::kFloat32, shape);
  check({op + "_grad", axis, {dy, y}, {{DType::kFloat32, shape}}});
}

TEST_CASE("places are those of the first on ties and of NaNs before all, in rows of any length",
          "[property]") {
  const std::string op = GENERATE("argmax", "argmin");
  const int64_t n = GENERATE(1, 127, 128, 129, 300), inner = GENERATE(1, 3, 70);
  const float rare = GENERATE(2.0f, std::numeric_limits<float>::quiet_NaN());
  Random random(static_cast<Random::result_type>(inner * n));
  Array x(DType::kFloat32, {4, n, inner});
  for (float& value : x.as<float>())
    value = random_between(random, 0, 200) == 0
                ? rare
                : static_cast<float>(random_between(random, -1, 1));  // many are alike
  const KernelCase one{op, {{"axis", int64_t{1}}}, {x}, {{DType::kInt64, {4, inner}}}};
  INFO(one.str());
  const KernelRun expected = run_kernel(one, {cpu::reference_kernels()});
  for (const int threads : {1, 3})
    CHECK(
        same_bits(expected, run_kernel(one, {cpu::fast_kernels(), cpu::Layout::kPlain, threads})));
}

TEST_CASE("fast kernels give the same bits on any number of threads", "[property]") {
  for_random_cases([](const KernelCase& one) {
    for (const cpu::Layout layout : {cpu::Layout::kPlain, cpu::Layout::kChannelsLast}) {
      if (layout == cpu::Layout::kChannelsLast && !takes_channels_last(one)) continue;
      const KernelRun alone = run_kernel(one, {cpu::fast_kernels(), layout, 1});
      for (int threads : {2, 3, 4, 8}) {
        INFO(threads << " threads");
        REQUIRE(same_bits(alone, run_kernel(one, {cpu::fast_kernels(), layout, threads})));
      }
    }
  });
}

TEST_CASE("the reference computes float32 jobs as it computes float64 ones, but for rounding",
          "[property]") {
  for_random_cases([](const KernelCase& one) {
    if (has_dtype_attribute(one.op)) return;
    const KernelRun narrow = run_kernel(one, {cpu::reference_kernels()});
    const KernelRun wide = run_kernel(widened(one), {cpu::reference_kernels()});
    for (size_t i = 0; i < one.results.size(); ++i)
      require_near_rounded(one, narrow.outputs[i], wide.outputs[i]);
  });
}

}  // namespace flow::test
