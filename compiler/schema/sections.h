// Schemas of the tables of compiler/job: sections, variants and their keys.
#pragma once

#include <string>

#include "compiler/schema/forms.h"

namespace flow::schema {

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
