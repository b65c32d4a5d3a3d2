// Declares schemas of single values as job files write them, and of the tables of compiler/job:
// sections, variants and their keys. Text with a dollar sign can replace any value, and text that
// spells a number is a number.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/tables/keys.h"
#include "runtime/plan/json/json.h"

namespace flow::schema {

/// Returns a reference to `name` of $defs.
OrderedJson reference(std::string_view name);

/// Returns the $defs that the schemas below refer to.
OrderedJson common_definitions();

OrderedJson any_of(std::vector<OrderedJson> schemas);
/// Returns the schema of one of the alternatives, or of text with variables.
OrderedJson or_variable(std::vector<OrderedJson> schemas);
OrderedJson words(const std::vector<std::string_view>& choices);
OrderedJson integer(job::Bounds bounds = {});
OrderedJson number(job::Bounds bounds = {});
/// Returns the schema of a list of items. If `one` is true, also accepts a single item.
OrderedJson list_of(OrderedJson item, bool one, size_t at_least = 0);
/// Returns the schema of text that matches the pattern. An empty pattern accepts any text that is
/// not empty.
OrderedJson text(std::string_view pattern);

/// Return the schema with the purpose of the value, or with the default of a missing value.
OrderedJson described(const OrderedJson& schema, std::string_view doc);
OrderedJson with_default(OrderedJson schema, std::string_view fallback);

/// Returns the schema of a mapping with only these keys. If `notes` is true, also accepts `note`.
OrderedJson mapping(OrderedJson properties, bool notes = true);
/// Returns the schema as text. Every part that fits on one line is written on one line.
std::string written(const OrderedJson& schema);

/// Returns a schema that applies `schema` if `key` is `value`, which is a name.
OrderedJson where(std::string_view key, std::string_view value, OrderedJson schema);

/// Collects the $defs of all tables that are reachable from a table.
class Tables {
 public:
  Tables() : definitions_(common_definitions()) {}

  /// Makes the definitions from now on describe parts of mappings, in which required keys may be
  /// missing, because an included file may contain them.
  void take_parts() { parts_ = true; }

  /// Returns the schema of a key's value, with its documentation and default.
  OrderedJson property(const job::KeyDef& def);
  /// Return references to the definition of a section or a kind of variants. Each definition is
  /// made once.
  OrderedJson section(const job::Section& section);
  OrderedJson variants(const job::VariantKind& kind);

  OrderedJson& definitions() { return definitions_; }

 private:
  /// Returns the schema of a key's value without its documentation and default.
  OrderedJson value(const job::KeyDef& def);
  /// Returns the schema of the form that the type of the key defines.
  OrderedJson form(const job::KeyDef& def);
  OrderedJson keys(const job::Section& section);
  OrderedJson extensible(const job::Section& section);
  /// Accepts deletions in a mapping if it is a part of one.
  OrderedJson with_deletions(OrderedJson schema) const;
  OrderedJson names(const job::Section& section);
  OrderedJson variant(const job::VariantKind& kind, const job::Variant& variant);
  OrderedJson picked(const job::VariantKind& kind);
  OrderedJson source(const job::KeyDef& def);
  OrderedJson kinds(std::string name, std::span<const job::Section> sections);
  /// Adds the rules for keys that are required, exclude each other, or need each other.
  void relate(const std::vector<job::KeyDef>& keys, const std::vector<std::string_view>& one_of,
              OrderedJson& schema) const;
  /// Returns a reference to the definition with that name. The first call makes it with `make`.
  template <typename Make>
  OrderedJson once(std::string name, Make make);

  OrderedJson definitions_;
  bool parts_ = false;
};

}  // namespace flow::schema
