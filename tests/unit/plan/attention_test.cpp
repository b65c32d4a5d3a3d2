// The plan check's rules for attention.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/plan/signature.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan {
namespace {

const std::string kOp = "scaled_dot_product_attention";
constexpr DType F = DType::kFloat32, B = DType::kBool;
using Results = std::vector<std::pair<DType, Shape>>;

/// Of a call with float operands of `shapes` and perhaps a mask.
Results results_of(const std::string& op, const std::vector<Shape>& shapes,
                   const std::vector<Shape>& mask = {}) {
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes) tensors.emplace_back().dtype = F, tensors.back().shape = shape;
  for (const Shape& shape : mask) tensors.emplace_back().dtype = B, tensors.back().shape = shape;
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  const std::string path = "a.plan";
  const Site site(path);
  const Attributes attributes = sample::attributes_of({{"causal", false}, {"scale", 1.0}});
  return check_call(*find_signature(op), Call(site, pointers, attributes, F));
}

bool refuses(const std::string& op, const std::vector<Shape>& shapes,
             const std::vector<Shape>& mask = {}) {
  try {
    results_of(op, shapes, mask);
    return false;
  } catch (const RequestError&) {
    return true;
  }
}

const Shape q{2, 4, 5}, k{2, 6, 5}, v{2, 6, 7}, y{2, 4, 7}, rows{2, 4};

}  // namespace

TEST_CASE("attention: lengths and the value's depth are their own, all else fits") {
  CHECK(results_of(kOp, {q, k, v}) == Results{{F, y}, {F, rows}});
  for (const Shape& mask : {Shape{}, Shape{6}, Shape{4, 1}, Shape{2, 4, 6}})
    CHECK(results_of(kOp, {q, k, v}, {mask}).size() == 2);
  CHECK(refuses(kOp, {q, k}));
  CHECK(refuses(kOp, {{5}, {5}, {5}}));
  CHECK(refuses(kOp, {q, {2, 6, 4}, v}));
  CHECK(refuses(kOp, {q, k, {2, 5, 7}}));
  CHECK(refuses(kOp, {q, {1, 6, 5}, v}));
  CHECK(refuses(kOp, {q, k, {6, 7}}));
  CHECK(refuses(kOp, {q, k, v}, {{4}}));
  CHECK(refuses(kOp, {q, k, v}, {{1, 2, 4, 6}}));
  CHECK(refuses(kOp, {q, k, v}, {{6}, {6}}));
}

TEST_CASE("attention's gradients have the shapes of what they are of") {
  const std::string op = kOp + "_grad";
  CHECK(results_of(op, {y, q, k, v, y, rows}) == Results{{F, q}, {F, k}, {F, v}});
  CHECK(results_of(op, {y, q, k, v, y, rows}, {{4, 6}}).size() == 3);
  CHECK(refuses(op, {q, q, k, v, y, rows}));
  CHECK(refuses(op, {y, q, k, v, q, rows}));
  CHECK(refuses(op, {y, q, k, v, y, {4}}));
  CHECK(refuses(op, {y, q, k, v, y, rows}, {{3, 6}}));
}

}  // namespace flow::plan
