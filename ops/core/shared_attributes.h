// Operands and attributes that ops of several families have, and checks of their values.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/core/call.h"
#include "ops/core/limits.h"
#include "ops/core/spec.h"

namespace flow::ops {

/// Operands of integers, which `limit` may bound; and operands that a call may lack.
OperandSpec integers(std::string_view name, std::string_view doc, LimitRule limit = nullptr);
OperandSpec optional_integers(std::string_view name, std::string_view doc,
                              LimitRule limit = nullptr);
OperandSpec optional_floats(std::string_view name, std::string_view doc);
/// Limits: the size of the axis of operand 0 that the attribute names, and the attribute `extent`.
int64_t limit_of_axis(std::span<const Shape> operands, const Attributes& attributes);
int64_t limit_of_extent(std::span<const Shape> operands, const Attributes& attributes);

/// An axis, which normalize_axis counts from the front.
AttributeSpec axis_attribute(std::string_view fallback, std::string_view doc);
/// Axes, by default all; plans have `axes` instead (normalize_axes).
AttributeSpec axes_attribute(std::string_view doc);
PlanAttribute axes_in_plans();
/// One of `choices`.
AttributeSpec choice_attribute(std::string_view name, std::string_view fallback,
                               std::string_view doc, std::vector<std::string_view> choices);
/// A number of at least `min` and at most `max`.
AttributeSpec number_attribute(std::string_view name, std::string_view fallback,
                               std::string_view doc, std::optional<double> min = {},
                               std::optional<double> max = {});
/// Any number, also NaN and infinities.
AttributeSpec value_attribute(std::string_view name, std::string_view fallback,
                              std::string_view doc);
/// A number in [0, 1).
AttributeSpec fraction_attribute(std::string_view name, std::string_view fallback,
                                 std::string_view doc);
/// An integer, likewise.
AttributeSpec integer_attribute(std::string_view name, std::string_view fallback,
                                std::string_view doc, std::optional<double> min,
                                std::optional<double> max = {});
/// An integer in [1, kMaxSize].
AttributeSpec count_attribute(std::string_view name, std::string_view doc,
                              std::string_view fallback = "");
/// An integer in [-kMaxSize, kMaxSize].
AttributeSpec offset_attribute(std::string_view name, std::string_view fallback,
                               std::string_view doc);
/// The size of an axis that a gradient restores.
AttributeSpec extent_attribute(std::string_view doc);
/// Extents of at least 1.
AttributeSpec extents_attribute(std::string_view name, std::string_view fallback,
                                std::string_view doc);
/// Those of the first result, axis by axis, in plans.
PlanAttribute extents_of_result(std::string_view name);
/// The attribute, of another kind in plans than type and bounds tell.
AttributeSpec of_kind(Kind kind, AttributeSpec attribute);

AttributeSpec first_axis_attribute();
AttributeSpec epsilon_attribute(std::string_view fallback);
AttributeSpec center_attribute();
AttributeSpec scale_attribute();

/// Reports an operand 0 that is not [N, C, ...] with channels for the attribute `groups`.
bool has_groups(Call& call);

/// Whether the number in the attribute can be an element of that dtype as it is; reports one that
/// cannot.
bool can_store(Call& call, std::string_view attribute, DType dtype);

/// Of layers with a table of embeddings: the size of the table, what `own` says, and how it starts
/// and is trained.
std::vector<AttributeSpec> embedding_attributes(const std::vector<AttributeSpec>& own = {});

}  // namespace flow::ops
