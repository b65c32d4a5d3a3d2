// The variant that `type:` selects, read by its table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/text/reader.h"

namespace flow::job {

/// True for a mapping; else an error with a hint: "write `{type: static, value: 8}`". `what`:
/// "`loss_scale`".
bool expect_variant(Reader& reader, const yaml::Node& node, std::string_view what,
                    const VariantKind& kind);

/// The variant that `type:` of a mapping picks; reports a missing or unknown one and returns null.
/// `what`: "`optimizer`".
const Variant* pick_variant(Reader& reader, const yaml::Node& node, Span key, std::string_view what,
                            const VariantKind& kind);

/// `type`, the keys of the variant (of all variants, where it is null) and the common ones.
std::vector<KeyDef> keys_of(const VariantKind& kind, const Variant* variant);

/// A variant in the file, as a mapping, or as a word if its kind allows that.
class ParsedVariant {
 public:
  /// `what`: the name of the key in messages; `owner`: where a missing `type` is reported. Null
  /// variant() after errors.
  ParsedVariant(Reader& reader, const yaml::Node& node, Span owner, std::string_view what,
                const VariantKind& kind);

  /// Null after an error.
  const Variant* variant() const { return variant_; }
  /// REQUIRES: variant().
  const Fields& fields() const { return *fields_; }

 private:
  const Variant* variant_ = nullptr;
  std::optional<Fields> fields_;
};

/// A list of patterns, or one; `expected`: of what, where they are no patterns.
std::optional<std::vector<Name>> read_globs(Reader& reader, const yaml::Node& node,
                                            std::string_view what,
                                            std::string_view expected = "a pattern");

}  // namespace flow::job
