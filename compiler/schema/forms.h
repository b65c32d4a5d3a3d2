// Schemas of single values as job files write them: everywhere, text with a dollar sign may stand
// for the value, and texts that spell numbers are numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/tables/keys.h"
#include "runtime/plan/json/json.h"

namespace flow::schema {

/// What `name` of $defs says.
OrderedJson reference(std::string_view name);

/// The $defs that the schemas below refer to.
OrderedJson common_definitions();

OrderedJson any_of(std::vector<OrderedJson> schemas);
/// One of the alternatives, or text that variables make.
OrderedJson or_variable(std::vector<OrderedJson> schemas);
OrderedJson words(const std::vector<std::string_view>& choices);
OrderedJson integer(job::Bounds bounds = {});
OrderedJson number(job::Bounds bounds = {});
/// A list of such items, or, where `one`, one of them.
OrderedJson list_of(OrderedJson item, bool one, size_t at_least = 0);
/// Text that matches the pattern, any but the empty where there is none.
OrderedJson text(std::string_view pattern);

/// The same schema with what the value is for, and the value that an absent one has.
OrderedJson described(const OrderedJson& schema, std::string_view doc);
OrderedJson with_default(OrderedJson schema, std::string_view fallback);

/// A mapping with these keys and no others, `note` besides where `notes`.
OrderedJson mapping(OrderedJson properties, bool notes = true);
/// As text, what fits into a line on one.
std::string written(const OrderedJson& schema);

/// Where `key` is `value`, a name, what `schema` says.
OrderedJson where(std::string_view key, std::string_view value, OrderedJson schema);

}  // namespace flow::schema
