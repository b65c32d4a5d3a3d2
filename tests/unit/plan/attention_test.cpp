// The plan check's rules for attention.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/plan/check/call_check.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan {
namespace {

const std::string kOp = "scaled_dot_product_attention";
constexpr DType kF32 = DType::kFloat32, kMask = DType::kBool;
using Results = std::vector<std::pair<DType, Shape>>;

/// Of a call with float operands of `shapes` and perhaps a mask.
Results attention_of(const std::string& op, const std::vector<Shape>& shapes,
                     const std::vector<Shape>& mask = {}) {
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes)
    tensors.emplace_back().dtype = kF32, tensors.back().shape = shape;
  for (const Shape& shape : mask)
    tensors.emplace_back().dtype = kMask, tensors.back().shape = shape;
  std::vector<ops::Operand> operands;
  for (const Tensor& tensor : tensors) operands.push_back(operand_of(tensor));
  const std::string path = "a.plan";
  const Location location(path);
  const Attributes attributes = sample::attributes_of({{"causal", false}, {"scale", 1.0}});
  Results results;
  for (const ops::Result& result : check_call(spec_of(op, location), std::move(operands),
                                              attributes, {.compute = kF32}, location))
    results.emplace_back(result.dtype, result.shape);
  return results;
}

bool refuses(const std::string& op, const std::vector<Shape>& shapes,
             const std::vector<Shape>& mask = {}) {
  try {
    attention_of(op, shapes, mask);
    return false;
  } catch (const RequestError&) {
    return true;
  }
}

const Shape kQ{2, 4, 5}, kK{2, 6, 5}, kV{2, 6, 7}, kY{2, 4, 7}, kRows{2, 4};

}  // namespace

TEST_CASE("attention: lengths and the value's depth are their own, all else fits", "[plan]") {
  CHECK(attention_of(kOp, {kQ, kK, kV}) == Results{{kF32, kY}, {kF32, kRows}});
  for (const Shape& mask : {Shape{}, Shape{6}, Shape{4, 1}, Shape{2, 4, 6}})
    CHECK(attention_of(kOp, {kQ, kK, kV}, {mask}).size() == 2);
  CHECK(refuses(kOp, {kQ, kK}));
  CHECK(refuses(kOp, {{5}, {5}, {5}}));
  CHECK(refuses(kOp, {kQ, {2, 6, 4}, kV}));
  CHECK(refuses(kOp, {kQ, kK, {2, 5, 7}}));
  CHECK(refuses(kOp, {kQ, {1, 6, 5}, kV}));
  CHECK(refuses(kOp, {kQ, kK, {6, 7}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{4}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{1, 2, 4, 6}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{6}, {6}}));
}

TEST_CASE("attention's gradients have the shapes of what they are of", "[plan]") {
  const std::string op = kOp + "_grad";
  CHECK(attention_of(op, {kY, kQ, kK, kV, kY, kRows}) ==
        Results{{kF32, kQ}, {kF32, kK}, {kF32, kV}});
  CHECK(attention_of(op, {kY, kQ, kK, kV, kY, kRows}, {{4, 6}}).size() == 3);
  CHECK(refuses(op, {kQ, kQ, kK, kV, kY, kRows}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kQ, kRows}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kY, {4}}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kY, kRows}, {{3, 6}}));
}

}  // namespace flow::plan
