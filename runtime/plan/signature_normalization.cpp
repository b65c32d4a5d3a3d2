// The shape rules of normalising primitives.
#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

/// [C] of the axis that the attribute names.
Shape channels_of(const Call& call) {
  const int64_t axis = call.attribute<int64_t>("axis");
  call.require(axis < call.shape(0).rank(), "axis {} of {}", axis, call.shape(0).str());
  return {call.shape(0)[static_cast<int>(axis)]};
}

/// The shape of operand 0 up to that axis, and from there on.
std::pair<Shape, Shape> parts_of(const Call& call) {
  const int64_t axis = call.attribute<int64_t>("axis");
  const Shape& x = call.shape(0);
  call.require(axis < x.rank(), "axis {} of {}", axis, x.str());
  return {x.first(static_cast<int>(axis)), x.from(static_cast<int>(axis))};
}

/// Operands first, first + 1, ... below `end` are of that shape.
void require_shapes(const Call& call, size_t first, size_t end, const Shape& expected) {
  for (size_t i = first; i < end; ++i)
    call.require(call.shape(i) == expected, "operand {} is {}, it must be {}", i,
                 call.shape(i).str(), expected.str());
}

}  // namespace

namespace rules {

void batch_norm(Call& call) {
  const Shape channels = channels_of(call);
  require_shapes(call, 1, 3, channels);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), channels);
  call.result(call.number(), channels);
}

void batch_norm_predict(Call& call) {
  require_shapes(call, 1, 5, channels_of(call));
  call.result(call.number(), call.shape(0));
}

void batch_norm_grad_affine(Call& call) {
  const Shape channels = channels_of(call);
  require_shapes(call, 1, 2, call.shape(0));
  require_shapes(call, 2, 6, channels);
  call.result(call.number(), channels);
  call.result(call.number(), channels);
}

void batch_norm_grad(Call& call) {
  require_shapes(call, 1, 2, call.shape(0));
  require_shapes(call, 2, 8, channels_of(call));
  call.result(call.number(), call.shape(0));
}

void layer_normalize(Call& call) {
  const auto [rows, features] = parts_of(call);
  require_shapes(call, 1, 3, features);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), rows);
  call.result(call.number(), rows);
}

void layer_normalize_grad(Call& call) {
  const auto [rows, features] = parts_of(call);
  require_shapes(call, 1, 2, call.shape(0));
  require_shapes(call, 2, 3, features);
  require_shapes(call, 3, 5, rows);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), features);
  call.result(call.number(), features);
}

void move_statistics(Call& call) {
  require_shapes(call, 1, 4, call.shape(0));
  call.result(call.number(), call.shape(2));
  call.result(call.number(), call.shape(3));
}

}  // namespace rules

}  // namespace flow::plan
