// Schemas of single values as job files write them: everywhere, text with a dollar sign may stand
// for the value, and texts that spell numbers are numbers. Schemas of the tables of compiler/job:
// sections, variants and their keys.
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

/// Collects the $defs of all tables that are reached from one.
class Tables {
 public:
  Tables() : definitions_(common_definitions()) {}

  /// From here on definitions are those of parts of mappings: what is required may stand in a file
  /// that is included.
  void take_parts() { parts_ = true; }

  /// What stands at a key, with its documentation and default.
  OrderedJson property(const job::KeyDef& def);
  /// Refers to the definition of a section or a kind of variants, which is made once.
  OrderedJson section(const job::Section& section);
  OrderedJson variants(const job::VariantKind& kind);

  OrderedJson& definitions() { return definitions_; }

 private:
  /// The same without these.
  OrderedJson value(const job::KeyDef& def);
  OrderedJson keys(const job::Section& section);
  OrderedJson extensible(const job::Section& section);
  /// Allows deletions in a mapping that is a part of one.
  OrderedJson with_deletions(OrderedJson schema) const;
  OrderedJson names(const job::Section& section);
  OrderedJson variant(const job::VariantKind& kind, const job::Variant& variant);
  OrderedJson picked(const job::VariantKind& kind);
  OrderedJson source(const job::KeyDef& def);
  OrderedJson hooks();
  /// Keys that must be there, exclude or need each other.
  void relate(const std::vector<job::KeyDef>& keys, const std::vector<std::string_view>& one_of,
              OrderedJson& schema) const;
  /// The definition of that name, made by `make` when it is asked for first.
  template <typename Make>
  OrderedJson once(std::string name, Make make);

  OrderedJson definitions_;
  bool parts_ = false;
};

}  // namespace flow::schema
