// Attributes that ops of several families have, and checks of their values.
#pragma once

#include <string_view>
#include <vector>

#include "ops/core/call.h"
#include "ops/core/limits.h"
#include "ops/core/spec.h"

namespace flow::ops {

/// An integer in [1, kMaxSize].
inline AttributeSpec count_attribute(std::string_view name, std::string_view doc,
                                     std::string_view fallback = "") {
  return {.name = name,
          .type = AttributeType::kInteger,
          .fallback = fallback,
          .doc = doc,
          .min = 1,
          .max = static_cast<double>(kMaxSize)};
}

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
