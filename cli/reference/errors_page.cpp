// The page of error codes.
#include <fmt/format.h>

#include "cli/reference/pages.h"
#include "compiler/diag/diag.h"

namespace flow::cli {
namespace {

struct Group {
  std::string_view prefix, title;
};
constexpr Group kGroups[] = {
    {"E01", "File and YAML"},     {"E02", "Names, variables and overrides"},
    {"E03", "Ops and shapes"},    {"E04", "Data and inputs"},
    {"E05", "Returns and hooks"}, {"E06", "Training"},
    {"E07", "Run and placement"}, {"W", "Warnings"},
};

/// Examples are set off by four blanks, which Markdown has, too.
std::string group_text(const Group& group) {
  std::string text;
  for (const DiagnosisInfo& info : all_diagnoses())
    if (info.code.starts_with(group.prefix))
      text += fmt::format("\n### {}: {}\n\n{}\n", info.code, info.title, info.explanation);
  return text.empty() ? "" : fmt::format("\n## {}\n{}", group.title, text);
}

}  // namespace

std::string errors_page() {
  std::string text =
      "# Errors\n\nMessages end with a code in brackets: `[E0302]`. `flowc explain CODE` prints "
      "these explanations.\n";
  for (const Group& group : kGroups) text += group_text(group);
  return text;
}

}  // namespace flow::cli
