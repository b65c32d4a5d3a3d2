// The shape rules of normalising primitives.
#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

/// [C] of the axis that the attribute names.
Shape channels_of(const Call& call) { return {call.shape(0)[call.axis()]}; }

/// The shape of operand 0 up to that axis, and from there on.
std::pair<Shape, Shape> parts_of(const Call& call) {
  const int axis = call.axis();
  return {call.shape(0).first(axis), call.shape(0).from(axis)};
}

/// [C] and [N, groups] of operand 0, which is [N, C, ...].
std::pair<Shape, Shape> groups_of(const Call& call) {
  const Shape& x = call.shape(0);
  const int64_t groups = call.attribute<int64_t>("groups");
  call.require(x.rank() >= 2 && x[1] % groups == 0,
               "cannot split the channels of {} into {} groups", x.str(), groups);
  return {{x[1]}, {x[0], groups}};
}

}  // namespace

namespace rules {

void batch_norm(Call& call) {
  const Shape channels = channels_of(call);
  call.require_shapes(1, 3, channels);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), channels);
  call.result(call.number(), channels);
}

void batch_norm_predict(Call& call) {
  call.require_shapes(1, 5, channels_of(call));
  call.result(call.number(), call.shape(0));
}

void batch_norm_grad_affine(Call& call) {
  const Shape channels = channels_of(call);
  call.require_shapes(1, 2, call.shape(0));
  call.require_shapes(2, 6, channels);
  call.result(call.number(), channels);
  call.result(call.number(), channels);
}

void batch_norm_grad(Call& call) {
  call.require_shapes(1, 2, call.shape(0));
  call.require_shapes(2, 8, channels_of(call));
  call.result(call.number(), call.shape(0));
}

void layer_normalize(Call& call) {
  const auto [rows, features] = parts_of(call);
  call.require_shapes(1, 3, features);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), rows);
  call.result(call.number(), rows);
}

void layer_normalize_grad(Call& call) {
  const auto [rows, features] = parts_of(call);
  call.require_shapes(1, 2, call.shape(0));
  call.require_shapes(2, 3, features);
  call.require_shapes(3, 5, rows);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), features);
  call.result(call.number(), features);
}

void group_normalize(Call& call) {
  const auto [channels, groups] = groups_of(call);
  call.require_shapes(1, 3, channels);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), groups);
  call.result(call.number(), groups);
}

void group_normalize_grad(Call& call) {
  const auto [channels, groups] = groups_of(call);
  call.require_shapes(1, 2, call.shape(0));
  call.require_shapes(2, 3, channels);
  call.require_shapes(3, 5, groups);
  call.result(call.number(), call.shape(0));
  call.result(call.number(), channels);
  call.result(call.number(), channels);
}

void move_statistics(Call& call) {
  call.require_shapes(1, 4, call.shape(0));
  call.result(call.number(), call.shape(2));
  call.result(call.number(), call.shape(3));
}

}  // namespace rules

}  // namespace flow::plan
