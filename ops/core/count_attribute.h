// Attributes that count.
#pragma once

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

}  // namespace flow::ops
