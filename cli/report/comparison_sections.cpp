// Verdicts of flowdiff, and remarks on the report itself.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "cli/flowdiff/words.h"
#include "cli/report/sections.h"
#include "runtime/base/text.h"

namespace flow::cli::report {
namespace {

using compare::ArrayDifference;
using compare::Verdict;

Html note(std::string_view text) { return fragment("note", {{"text", Html::text(text, 600)}}); }

/// What a style and a mark say of a verdict: both, for people who see no colors.
struct Badge {
  const char *kind, *mark;
};
constexpr Badge kGood = {"good", "✓"}, kDoubtful = {"stopped", "?"}, kBad = {"bad", "✕"};

Badge badge_of(Outcome outcome) {
  if (outcome == Outcome::kPassed) return kGood;
  return outcome == Outcome::kMistrusted ? kDoubtful : kBad;
}

Badge badge_of(Verdict verdict) {
  if (verdict == Verdict::kMistrusted) return kDoubtful;
  return verdict < Verdict::kMistrusted ? kGood : kBad;
}

Html row_of(const ArrayDifference& array) {
  const Badge badge = badge_of(array.verdict);
  std::string over = over_text(array);
  if (array.over > 0) over += fmt::format(" of {}", array.elements - array.not_judged);
  return fragment("comparison row",
                  {{"name", Html::text(array.name, 160)},
                   {"kind", Html::trusted(badge.kind)},
                   {"mark", Html::trusted(badge.mark)},
                   {"verdict", Html::text(name_of_verdict(array.verdict), 40)},
                   {"absolute", Html::text(error_text(array, array.absolute.error), 40)},
                   {"relative", Html::text(error_text(array, array.relative.error), 40)},
                   {"over", Html::text(over, 60)},
                   {"why", Html::text(main_reason(array))}});
}

Html table_of(const DiffReport& report) {
  constexpr size_t kMostRows = 50, kMostNotes = 20;
  std::vector<const ArrayDifference*> shown;
  for (const ArrayDifference& array : report.comparison.arrays) shown.push_back(&array);
  // What fails comes first, then what is mistrusted.
  std::ranges::stable_sort(shown, std::greater(), [](const ArrayDifference* array) {
    return array->failed() ? 2 : array->verdict == Verdict::kMistrusted ? 1 : 0;
  });
  Html rows, notes;
  for (const ArrayDifference* array : std::span(shown).first(std::min(shown.size(), kMostRows)))
    rows += row_of(*array);
  if (shown.size() > kMostRows)
    notes += note(fmt::format("{} left out", counted(shown.size() - kMostRows, "other array")));
  std::vector<std::string> lines = report.data;
  for (std::string& line : closing_lines(report)) lines.push_back(std::move(line));
  for (const std::string& line : std::span(lines).first(std::min(lines.size(), kMostNotes)))
    notes += note(line);
  const Outcome outcome = outcome_of(report);
  return fragment("comparison", {{"golden", Html::text(report.golden)},
                                 {"out", Html::text(report.out)},
                                 {"kind", Html::trusted(badge_of(outcome).kind)},
                                 {"mark", Html::trusted(badge_of(outcome).mark)},
                                 {"verdict", Html::text(name_of(outcome))},
                                 {"summary", Html::text(diff_summary(report.comparison))},
                                 {"rows", rows},
                                 {"notes", notes}});
}

}  // namespace

Html comparisons_section(const Report& report) {
  Html body;
  for (const DiffReport& comparison : report.comparisons) body += table_of(comparison);
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
