// Verdicts of flowdiff, and remarks on the report itself.
#include <fmt/format.h>

#include "cli/report/sections.h"
#include "runtime/base/text.h"

namespace flow::cli::report {
namespace {

Html note(std::string_view text) { return fragment("note", {{"text", Html::text(text, 600)}}); }

Html row_of(const Comparison::Row& row) {
  const bool good = row.verdict == "equal" || row.verdict == "within";
  const char* kind = good ? "good" : row.verdict == "mistrusted" ? "stopped" : "bad";
  return fragment("comparison row", {{"name", Html::text(row.name, 160)},
                                     {"kind", Html::trusted(kind)},
                                     {"mark", Html::trusted(good             ? "✓"
                                                            : kind[0] == 's' ? "?"
                                                                             : "✕")},
                                     {"verdict", Html::text(row.verdict, 40)},
                                     {"absolute", Html::text(row.absolute, 40)},
                                     {"relative", Html::text(row.relative, 40)},
                                     {"over", Html::text(row.over, 60)},
                                     {"why", Html::text(row.why)}});
}

Html table_of(const Comparison& comparison) {
  Html rows, notes;
  for (const Comparison::Row& row : comparison.rows) rows += row_of(row);
  if (comparison.left_out > 0)
    notes += note(fmt::format("{} left out", counted(comparison.left_out, "other array")));
  for (const std::string& each : comparison.notes) notes += note(each);
  return fragment("comparison", {{"golden", Html::text(comparison.golden)},
                                 {"out", Html::text(comparison.out)},
                                 {"kind", Html::trusted(comparison.failed ? "bad" : "good")},
                                 {"mark", Html::trusted(comparison.failed ? "✕" : "✓")},
                                 {"summary", Html::text(comparison.summary)},
                                 {"rows", rows},
                                 {"notes", notes}});
}

}  // namespace

Html comparisons_section(const Report& report) {
  Html body;
  for (const Comparison& comparison : report.comparisons) body += table_of(comparison);
  if (body.empty()) return body;
  return section("comparisons", "Comparisons", "by flowdiff", body);
}

Html notes_section(const Report& report) {
  constexpr size_t kMost = 50;
  Html items;
  size_t count = 0;
  for (const RunData& run : report.runs)
    for (const std::string& text : run.notes)
      if (++count <= kMost) items += note(report.runs.size() > 1 ? run.name + ": " + text : text);
  if (count == 0) return {};
  if (count > kMost) items += note(fmt::format("and {} more", count - kMost));
  return section("notes", "Left out", "", fragment("notes", {{"items", items}}));
}

}  // namespace flow::cli::report
