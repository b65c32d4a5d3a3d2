// Operands and attributes that ops of several families share, and checks of their values.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/core/call.h"
#include "ops/core/limits.h"
#include "ops/core/spec.h"

namespace flow::ops {

/// An operand of integers, which `limit` may bound, and operands that a call may omit.
OperandSpec integers(std::string_view name, std::string_view doc, LimitRule limit = nullptr);
OperandSpec optional_integers(std::string_view name, std::string_view doc,
                              LimitRule limit = nullptr);
OperandSpec optional_floats(std::string_view name, std::string_view doc);
/// Limits of integer operands: the size of the axis of operand 0 that the attribute `axis` names,
/// and the value of the attribute `extent`.
int64_t limit_of_axis(std::span<const Shape> operands, const Attributes& attributes);
int64_t limit_of_extent(std::span<const Shape> operands, const Attributes& attributes);

/// An axis, which normalize_axis converts to a count from the front.
AttributeSpec axis_attribute(std::string_view fallback, std::string_view doc);
/// A list of axes, by default all. Plans have `axes` instead (see normalize_axes).
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
/// An integer of at least `min` and at most `max`.
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
/// An attribute of plans that contains the extents of the first result, axis by axis.
PlanAttribute extents_of_result(std::string_view name);
/// Returns the attribute with its kind in plans set explicitly, for cases in which type and bounds
/// do not determine it.
AttributeSpec of_kind(Kind kind, AttributeSpec attribute);

AttributeSpec first_axis_attribute();
AttributeSpec epsilon_attribute(std::string_view fallback);
AttributeSpec center_attribute();
AttributeSpec scale_attribute();

/// Returns true if operand 0 has the shape (N, C, ...) and its channels divide evenly by the
/// attribute `groups`; otherwise reports it.
bool has_groups(Call& call);

/// Returns true if the number in the attribute is exactly representable in that dtype; otherwise
/// reports it.
bool can_store(Call& call, std::string_view attribute, DType dtype);

/// Attributes of layers with an embedding table: the size of the table, then `own`, then its
/// initializer and training options.
std::vector<AttributeSpec> embedding_attributes(const std::vector<AttributeSpec>& own = {});

}  // namespace flow::ops
