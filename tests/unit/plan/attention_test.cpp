// The plan check's rules for attention.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/plan/check/check.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan {
namespace {

const std::string kOp = "scaled_dot_product_attention";
constexpr DType kF32 = DType::kFloat32, kMask = DType::kBool;
using Results = std::vector<std::pair<DType, Shape>>;

using Others = std::vector<std::pair<DType, Shape>>;

/// Of a call with float operands of `shapes` and other ones. A window below 0 is one of a causal
/// call.
Results attention_of(const std::string& op, const std::vector<Shape>& shapes,
                     const Others& others = {}, int64_t window = 0,
                     std::optional<int64_t> diagonal = {}) {
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes)
    tensors.emplace_back().dtype = kF32, tensors.back().shape = shape;
  for (const auto& [dtype, shape] : others)
    tensors.emplace_back().dtype = dtype, tensors.back().shape = shape;
  std::vector<ops::Operand> operands;
  for (const Tensor& tensor : tensors) operands.push_back(operand_of(tensor));
  const std::string path = "a.plan";
  const Location location(path);
  Attributes attributes = sample::attributes_of({{"causal", window < 0}, {"scale", 1.0}});
  if (window != 0) attributes.set("window", std::abs(window));
  if (diagonal) attributes.set("diagonal", *diagonal);
  Results results;
  for (const ops::Result& result : check_call(spec_of(op, location), std::move(operands),
                                              attributes, {.compute = kF32}, location))
    results.emplace_back(result.dtype, result.shape);
  return results;
}

bool refuses(const std::string& op, const std::vector<Shape>& shapes, const Others& others = {},
             int64_t window = 0) {
  try {
    attention_of(op, shapes, others, window);
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
    CHECK(attention_of(kOp, {kQ, kK, kV}, {{kMask, mask}}).size() == 2);
  CHECK(refuses(kOp, {kQ, kK}));
  CHECK(refuses(kOp, {{5}, {5}, {5}}));
  CHECK(refuses(kOp, {kQ, {2, 6, 4}, kV}));
  CHECK(refuses(kOp, {kQ, kK, {2, 5, 7}}));
  CHECK(refuses(kOp, {kQ, {1, 6, 5}, kV}));
  CHECK(refuses(kOp, {kQ, kK, {6, 7}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{kMask, {4}}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{kMask, {1, 2, 4, 6}}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{kMask, {6}}, {kMask, {6}}}));
}

TEST_CASE("attention: heads of keys divide those of queries", "[plan]") {
  const Shape q{2, 6, 4, 5}, value{2, 3, 6, 7};
  CHECK(attention_of(kOp, {q, {2, 3, 6, 5}, value}) ==
        Results{{kF32, {2, 6, 4, 7}}, {kF32, {2, 6, 4}}});
  CHECK(refuses(kOp, {q, {2, 4, 6, 5}, {2, 4, 6, 7}}));
  CHECK(refuses(kOp, {q, {2, 2, 6, 5}, value}));
  CHECK(refuses(kOp, {q, {1, 3, 6, 5}, {1, 3, 6, 7}}));
  CHECK(refuses(kOp, {{6, 4, 5}, {3, 6, 5}, {3, 6, 7}}));
}

TEST_CASE("attention: dtypes tell optional operands apart, in their order", "[plan]") {
  const std::pair<DType, Shape> mask{kMask, {4, 6}}, bias{kF32, {6}}, lengths{DType::kInt64, {2}};
  for (const Others& others : {Others{bias}, Others{lengths}, Others{mask, lengths},
                               Others{bias, lengths}, Others{mask, bias, lengths}}) {
    CHECK(attention_of(kOp, {kQ, kK, kV}, others).size() == 2);
    CHECK(attention_of(kOp + "_grad", {kY, kQ, kK, kV, kY, kRows}, others).size() == 3);
  }
  for (const Others& others : {Others{bias, mask}, Others{lengths, bias}, Others{bias, bias},
                               Others{mask, bias, lengths, lengths}}) {
    CHECK(refuses(kOp, {kQ, kK, kV}, others));
    CHECK(refuses(kOp + "_grad", {kY, kQ, kK, kV, kY, kRows}, others));
  }
  CHECK(refuses(kOp, {kQ, kK, kV}, {{kF32, {4}}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{DType::kFloat64, {6}}}));
  CHECK(refuses(kOp, {kQ, kK, kV}, {{DType::kInt32, {3}}}));
  CHECK(refuses(kOp, {{4, 5}, {6, 5}, {6, 7}}, {{DType::kInt32, {4}}}));
}

TEST_CASE("attention: a window is causal", "[plan]") {
  CHECK(attention_of(kOp, {kQ, kK, kV}, {}, -3).size() == 2);
  CHECK(refuses(kOp, {kQ, kK, kV}, {}, 3));
}

TEST_CASE("attention: the diagonal is that of the last key and the last query", "[plan]") {
  const auto refuses_diagonal = [](int64_t diagonal, bool causal) {
    try {
      attention_of(kOp, {kQ, kK, kV}, {}, causal ? -9 : 0, diagonal);
      return false;
    } catch (const RequestError&) {
      return true;
    }
  };
  CHECK_FALSE(refuses_diagonal(2, true));
  CHECK(refuses_diagonal(2, false));
  for (const int64_t diagonal : {0, 1, 3, -2}) CHECK(refuses_diagonal(diagonal, true));
}

TEST_CASE("the gradient of attention's bias has its shape", "[plan]") {
  const std::string op = kOp + "_grad_bias";
  const Shape bias{4, 1};
  CHECK(attention_of(op, {kY, kQ, kK, kV, kY, kRows, bias}) == Results{{kF32, bias}});
  CHECK(attention_of(op, {kY, kQ, kK, kV, kY, kRows, bias}, {{kMask, {6}}, {DType::kInt32, {2}}}) ==
        Results{{kF32, bias}});
  CHECK(refuses(op, {kY, kQ, kK, kV, kY, kRows}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kY, kRows}, {{kMask, {6}}}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kY, kRows, bias, bias}));
}

TEST_CASE("attention's gradients have the shapes of what they are of", "[plan]") {
  const std::string op = kOp + "_grad";
  CHECK(attention_of(op, {kY, kQ, kK, kV, kY, kRows}) ==
        Results{{kF32, kQ}, {kF32, kK}, {kF32, kV}});
  CHECK(attention_of(op, {kY, kQ, kK, kV, kY, kRows}, {{kMask, {4, 6}}}).size() == 3);
  CHECK(refuses(op, {kQ, kQ, kK, kV, kY, kRows}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kQ, kRows}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kY, {4}}));
  CHECK(refuses(op, {kY, kQ, kK, kV, kY, kRows}, {{kMask, {3, 6}}}));
}

}  // namespace flow::plan
