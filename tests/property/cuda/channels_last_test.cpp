// Kernels of images with channels last, in all types that jobs have there, against the reference,
// whose channels are not.
#include <catch2/catch.hpp>

#include <cstring>

#include "ops/core/spec.h"
#include "runtime/base/element_types.h"
#include "runtime/cuda/loops/kernel.h"
#include "tests/property/cuda/device_case.h"
#include "tests/property/tolerance.h"

namespace flow::test {
namespace {

using cuda::ChannelsLast;
using Integers = std::vector<int64_t>;

const Integers kToLast = {0, 2, 3, 1}, kToFirst = {0, 3, 1, 2};

Shape permuted(const Shape& shape, const Integers& axes) {
  Shape made = shape;
  for (int i = 0; i < 4; ++i) made[i] = shape[static_cast<int>(axes[static_cast<size_t>(i)])];
  return made;
}

/// The array with its axes in that order.
Array permuted(const Array& array, const Integers& axes) {
  const Shape &from = array.shape(), to = permuted(from, axes);
  Array made(array.dtype(), to);
  const size_t size = size_of(array.dtype());
  Integers at(4);
  for (int64_t i = 0; i < to.elements(); ++i) {
    int64_t rest = i, source = 0;
    for (int axis = 3; axis >= 0; --axis) {
      const auto own = static_cast<int>(axes[static_cast<size_t>(axis)]);
      source += rest % to[axis] * from.elements(own + 1, 4);
      rest /= to[axis];
    }
    std::memcpy(&made.bytes()[static_cast<size_t>(i) * size],
                &array.bytes()[static_cast<size_t>(source) * size], size);
  }
  return made;
}

const plan::Attribute* attribute(const KernelCase& one, const std::string& name) {
  for (const auto& [own, value] : one.attributes)
    if (own == name) return &value;
  return nullptr;
}

/// May a job have the call with channels last?
bool suits(const KernelCase& one, ChannelsLast layout) {
  const Shape& x = one.inputs[0].shape();
  if (x.rank() != 4 || !is_float(one.inputs[0].dtype())) return false;
  if (layout == ChannelsLast::kAxis) return *attribute(one, "axis") == plan::Attribute(int64_t{1});
  if (layout == ChannelsLast::kAxes)
    return *attribute(one, "axes") == plan::Attribute(Integers{2, 3});
  return layout != ChannelsLast::kSame ||
         std::ranges::all_of(one.inputs, [&](const Array& input) { return input.shape() == x; });
}

/// Does the result have channels last? Means over images have one pixel.
bool are_images(const Result& result, ChannelsLast layout) {
  return result.shape.rank() == 4 && layout != ChannelsLast::kAxes;
}

/// The call as a job has it with channels last.
KernelCase moved(KernelCase one, ChannelsLast layout) {
  for (Array& input : one.inputs)
    if (input.shape().rank() == 4) input = permuted(input, kToLast);
  for (Result& result : one.results)
    if (are_images(result, layout)) result.shape = permuted(result.shape, kToLast);
  for (auto& [name, value] : one.attributes) {
    if (layout == ChannelsLast::kAxis && name == "axis") value = int64_t{3};
    if (layout == ChannelsLast::kAxes && name == "axes") value = Integers{1, 2};
  }
  if (layout == ChannelsLast::kFlag)
    one.attributes.emplace_back(std::string(cuda::kChannelsLast), true);
  return one;
}

/// The call with 16 bits where jobs have them: images, and the bias that is added to them.
KernelCase in_16_bits(const KernelCase& one, ChannelsLast layout, DType low_precision) {
  const KernelCase all = rounded(one, low_precision);
  KernelCase made = one;
  const bool adds_bias = ops::find_spec(one.op)->epilogue == ops::Epilogue::kBias;
  for (size_t i = 0; i < made.inputs.size(); ++i)
    if (made.inputs[i].shape().rank() == 4 || adds_bias) made.inputs[i] = all.inputs[i];
  for (size_t i = 0; i < made.results.size(); ++i)
    if (are_images(made.results[i], layout)) made.results[i].dtype = all.results[i].dtype;
  return made;
}

/// A random call with images.
KernelCase image_case(const std::string& op, Random& random) {
  if (op != "concat") return random_case(op, random);
  const Shape a{2, 3, 4, 5}, b{2, 6, 4, 5};
  return {op,
          {{"axis", int64_t{1}}},
          {random_array(random, DType::kFloat32, a), random_array(random, DType::kFloat32, b)},
          {{DType::kFloat32, {2, 9, 4, 5}}}};
}

void require_channels_last(const KernelCase& one, ChannelsLast layout) {
  INFO(one.str());
  const KernelRun expected = run_kernel(in_float32(one), {cpu::reference_kernels()});
  const KernelCase last = moved(one, layout);
  const KernelRun got = run_on_device(last).run;
  CHECK(same_bits(got, run_on_device(last, {LaneOrder::kReversed}).run));
  for (size_t i = 0; i < one.results.size(); ++i) {
    if (one.results[i].unused) continue;
    const Array result =
        are_images(one.results[i], layout) ? permuted(got.outputs[i], kToFirst) : got.outputs[i];
    const Tolerance tolerance(one, result.dtype());
    for (int64_t at = 0; at < result.shape().elements(); ++at) {
      const double a = number_at(result, at), b = number_at(expected.outputs[i], at);
      if (is_float(result.dtype()) ? tolerance.admits(a, b) : a == b) continue;
      FAIL_CHECK("result " << i << ", element " << at << ": " << a << " instead of " << b);
      break;
    }
  }
}

}  // namespace

TEST_CASE("kernels take channels last in every type", "[cuda]") {
  constexpr int kCases = 2, kMostTries = 1000;
  int64_t kernels = 0;
  for (const cuda::KernelEntry& entry : cuda::all_kernels()) {
    if (entry.channels_last == ChannelsLast::kNo) continue;
    ++kernels;
    Random random(31);
    int found = 0;
    for (int i = 0; i < kMostTries && found < kCases; ++i) {
      const KernelCase one = image_case(std::string(entry.op), random);
      if (!suits(one, entry.channels_last)) continue;
      ++found;
      require_channels_last(one, entry.channels_last);
      for (const DType low_precision : {DType::kFloat16, DType::kBFloat16})
        require_channels_last(in_16_bits(one, entry.channels_last, low_precision),
                              entry.channels_last);
    }
    INFO(entry.op);
    CHECK(found == kCases);
  }
  CHECK(kernels > 20);
}

TEST_CASE("images change their layout and their type in one step", "[cuda]") {
  Random random(32);
  for (const Shape& shape : {Shape{2, 3, 9, 11}, Shape{3, 40, 7, 5}, Shape{1, 64, 1, 70},
                             Shape{2, 35, 33, 2}, Shape{5, 8, 8, 8}}) {
    const Array x = random_array(random, DType::kFloat32, shape);
    for (const DType low_precision : {DType::kFloat16, DType::kBFloat16})
      for (const bool rounds : {true, false}) {
        const KernelCase given{"add", {}, {x, x}, {{DType::kFloat32, shape}}};
        const Array low = rounded(given, low_precision).inputs[0];
        const Array &from = rounds ? x : low, expected = permuted(low, kToLast);
        KernelCase one{"transpose",
                       {{"perm", kToLast}},
                       {from},
                       {{rounds ? low_precision : DType::kFloat32, permuted(shape, kToLast)}}};
        INFO(one.str());
        for (const LaneOrder lanes : {LaneOrder::kForward, LaneOrder::kReversed}) {
          const Array got = run_on_device(one, {lanes}).run.outputs[0];
          for (int64_t i = 0; i < shape.elements(); ++i)
            REQUIRE(number_at(got, i) == number_at(expected, i));
        }
      }
  }
}

}  // namespace flow::test
