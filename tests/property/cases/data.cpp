// Random calls: shapes, dtypes, constants.
#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase broadcast_to(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  return {op,
          {{"shape", out.extents()}},
          {random_array(random, kF, repeated(random, out))},
          {{kF, out}}};
}

KernelCase reshape(const std::string& op, Random& random) {
  const Shape x = image_shape(random), out = {x[0], x.elements(1, 4)};
  return {op, {{"shape", out.extents()}}, {random_array(random, kF, x)}, {{kF, out}}};
}

KernelCase copy(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  return {op, {}, {random_array(random, kF, shape)}, {{kF, shape}}};
}

KernelCase cast(const std::string& op, Random& random) {
  constexpr DType kDTypes[] = {
      kF, DType::kBool, DType::kInt8, DType::kInt32, DType::kInt64, DType::kUInt8};
  const Shape shape = any_shape(random);
  const DType from = kDTypes[random_between(random, 0, 5)],
              to = kDTypes[random_between(random, 0, 5)];
  return {op, {{"dtype", to}}, {random_array(random, from, shape)}, {{to, shape}}};
}

KernelCase fill(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  const DType dtype = random_between(random, 0, 1) == 0 ? kF : pick_integer(random);
  return {op, {{"value", 3.5}, {"shape", shape.extents()}, {"dtype", dtype}}, {}, {{dtype, shape}}};
}

}  // namespace

std::span<const CaseMaker> data_cases() {
  static constexpr CaseMaker kCases[] = {
      {"broadcast_to", broadcast_to},
      {"reshape", reshape},
      {"cast", cast},
      {"copy", copy},
      {"fill", fill},
  };
  return kCases;
}

}  // namespace flow::test
