// Attributes of calls: read from text, defaulted, checked.
#pragma once

#include <string_view>

#include "compiler/ir/call_site.h"
#include "ops/core/spec.h"

namespace flow {

/// A value as a record writes it. REQUIRES: `text` is one of that type.
ir::Attribute attribute_from(ops::AttributeType type, std::string_view text);

/// Fills in what is defaulted, and reports what is missing, of another type or outside its range;
/// false then. `name` is the entry's.
bool complete_attributes(const ops::OpSpec& op, std::string_view name, const AttributeSpans& spans,
                         Diags& diags, ir::Attributes& attributes);

}  // namespace flow
