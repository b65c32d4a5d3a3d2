// Sections and tagged mappings of the job file as Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/tables/keys.h"

namespace flow::cli {

/// "Column" of "a column", "`vars`" of "`vars`".
std::string section_title(std::string_view what);

/// "integer >= 1", "`on` or `off`", "[input](#input)". `page`: the name of the page that shows it.
std::string type_text(const job::KeyDef& key, std::string_view page);

/// A table of keys: type, default, meaning.
std::string key_table(const std::vector<job::KeyDef>& keys, std::string_view page);

/// The same of a section of names that the user chooses. REQUIRES: section.each.
std::string each_table(const job::Section& section, std::string_view page);

/// Each `type:` of a kind, with formula and keys, below headings of that level.
std::string variant_text(const job::VariantKind& kind, std::string_view page, int level);

/// "Loss scales", the heading of a kind.
std::string kind_title(const job::VariantKind& kind);

/// A link from a page to that heading.
std::string link_to(const job::VariantKind& kind, std::string_view page);

}  // namespace flow::cli
