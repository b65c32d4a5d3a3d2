// Formats the results of flowdiff as a table for a terminal, as JUnit and as Markdown.
#include "cli/flowdiff/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

using compare::ArrayDifference;
using compare::Verdict;

struct VerdictWords {
  Verdict verdict;
  const char* name;        // used in tables and in JSON
  const char *one, *many;  // used in a summary after a number
};
constexpr std::array kVerdicts = {
    VerdictWords{Verdict::kEqual, "equal", "equal", "equal"},
    VerdictWords{Verdict::kWithin, "within", "within tolerance", "within tolerance"},
    VerdictWords{Verdict::kMistrusted, "mistrusted", "mistrusted", "mistrusted"},
    VerdictWords{Verdict::kDiffers, "differs", "differs", "differ"},
    VerdictWords{Verdict::kMissing, "missing", "missing", "missing"},
    VerdictWords{Verdict::kExtra, "extra", "extra", "extra"},
    VerdictWords{Verdict::kDType, "dtype", "has a different dtype", "have a different dtype"},
    VerdictWords{Verdict::kShape, "shape", "has a different shape", "have a different shape"},
    VerdictWords{Verdict::kUnreadable, "unreadable", "cannot be read", "cannot be read"},
};

std::string index_text(const std::vector<int64_t>& index) { return Shape(index).str(); }

/// The cells of a row: name, dtype, shape, max abs err, max rel err, over tolerance, verdict.
using Cells = std::array<std::string, 7>;
const Cells kTitles = {"array", "dtype", "shape", "max abs err", "max rel err", "over", "verdict"};

Cells cells_of(const ArrayDifference& array) {
  const bool known = array.verdict != Verdict::kUnreadable;
  return {escaped(array.name),
          known ? std::string(name_of(array.dtype)) : "-",
          known ? array.shape.str() : "-",
          error_text(array, array.absolute.error),
          error_text(array, array.relative.error),
          over_text(array),
          name_of_verdict(array.verdict)};
}

std::string worst_text(const char* what, const ArrayDifference::Worst& worst) {
  return fmt::format("max {} err {:.3g} at {}: golden {}, out {}", what, worst.error,
                     index_text(worst.index), worst.golden, worst.out);
}

/// Formats a share as "99.8 %". A share below 1 is never rounded up to 100 %.
std::string percent(double share) {
  return share < 1 && share >= 0.9995 ? "> 99.9 %" : fmt::format("{:.1f} %", 100 * share);
}

void describe_profile(const compare::ErrorProfile& profile, std::vector<std::string>& lines) {
  lines.push_back(fmt::format("abs err percentiles: 50 % {:.3g}, 90 % {:.3g}, 99 % {:.3g}",
                              profile.median, profile.percentile_90, profile.percentile_99));
  std::vector<std::string> places;
  for (const auto& worst : profile.axes)
    places.push_back(
        fmt::format("axis {} at {} ({})", worst.axis, worst.index, percent(worst.share)));
  if (!places.empty())
    lines.push_back(fmt::format("most of the squared error: {}", join(places, ", ")));
}

const char* color_of(Verdict verdict) {
  if (verdict == Verdict::kMistrusted) return "\033[33m";
  return verdict <= Verdict::kWithin ? "\033[32m" : "\033[1;31m";
}

/// Aligns the cells of a row. Columns 3 to 5 contain numbers, which are aligned right.
std::string aligned(const Cells& cells, const std::array<size_t, 7>& widths) {
  std::string line;
  for (size_t i = 0; i + 1 < cells.size(); ++i)
    line += i >= 3 ? fmt::format("{:>{}}  ", cells[i], widths[i])
                   : fmt::format("{:<{}}  ", cells[i], widths[i]);
  return line;
}

/// Returns a collapsed section with the details that do not fit into the cells.
std::string markdown_details(std::span<const ArrayDifference* const> arrays) {
  std::string text;
  for (const ArrayDifference* array : arrays) {
    const auto lines = reasons(*array);
    if (lines.size() < 2) continue;
    text += fmt::format("\n{}\n\n", markdown_text(array->name));
    for (const std::string& line : lines) text += fmt::format("- {}\n", markdown_text(line));
  }
  if (text.empty()) return text;
  return fmt::format("\n<details><summary>details</summary>\n{}\n</details>\n", text);
}

}  // namespace

const char* name_of_verdict(Verdict verdict) {
  return kVerdicts[static_cast<size_t>(verdict)].name;
}

std::optional<Verdict> verdict_named(const std::string& name) {
  const auto found = std::ranges::find(kVerdicts, name, &VerdictWords::name);
  return found == kVerdicts.end() ? std::nullopt : std::optional(found->verdict);
}

Outcome outcome_of(const DiffReport& report) {
  const compare::Comparison& comparison = report.comparison;
  if (comparison.pairs() == 0) return Outcome::kNothingCompared;
  if (const int64_t failed = comparison.failed(); failed > 0)
    return failed == comparison.unreadable() ? Outcome::kUnreadable : Outcome::kFailed;
  if (comparison.count(Verdict::kMistrusted) == 0) return Outcome::kPassed;
  return report.strict ? Outcome::kFailed : Outcome::kMistrusted;
}

const char* name_of(Outcome outcome) {
  static constexpr std::array kNames = {"passed", "mistrusted", "failed", "unreadable",
                                        "nothing compared"};
  return kNames[static_cast<size_t>(outcome)];
}

bool was_compared(const ArrayDifference& array) { return array.verdict <= Verdict::kDiffers; }

std::string over_text(const ArrayDifference& array) {
  return was_compared(array) && array.is_judged() ? fmt::format("{}", array.over) : "-";
}

std::string error_text(const ArrayDifference& array, double error) {
  if (!was_compared(array) || !array.is_judged()) return "-";
  return error == 0 ? "0" : fmt::format("{:.2e}", error);
}

std::string look_text(const compare::Look& look) {
  // Looks of these kinds only describe the error, so they explain no share of it.
  if (look.kind >= compare::LookKind::kNoise) return look.text;
  return fmt::format("{} (explains {} of the squared error)", look.text, percent(look.share));
}

std::vector<std::string> reasons(const ArrayDifference& array) {
  std::vector<std::string> lines;
  switch (array.verdict) {
    case Verdict::kEqual:
    case Verdict::kWithin:
    case Verdict::kMistrusted:
      return array.doubts;
    case Verdict::kMissing:
      lines = {"in golden, but not in out"};
      break;
    case Verdict::kExtra:
      lines = {"in out, but not in golden"};
      break;
    case Verdict::kDType:
    case Verdict::kShape:
    case Verdict::kUnreadable:
      lines = {array.detail};
      break;
    case Verdict::kDiffers:
      lines = {fmt::format(
          "{} of {} elements over tolerance (rtol {:g}, atol {:g}); first at {}: golden {}, out {}",
          array.over, array.elements - array.not_judged, array.tolerance.relative,
          array.tolerance.absolute, index_text(array.first_mismatch), array.first_golden,
          array.first_out)};
  }
  if (array.not_judged > 0)
    lines.push_back(fmt::format("not judged: {} of later steps",
                                counted(static_cast<uint64_t>(array.not_judged), "element")));
  if (array.look) lines.push_back("looks like: " + look_text(*array.look));
  if (array.absolute.error > 0) lines.push_back(worst_text("abs", array.absolute));
  if (array.relative.error > 0) lines.push_back(worst_text("rel", array.relative));
  if (array.profile) describe_profile(*array.profile, lines);
  if (array.nan_mismatches > 0)
    lines.push_back(fmt::format("NaN on one side only: {}", array.nan_mismatches));
  if (array.inf_mismatches > 0)
    lines.push_back(fmt::format("unmatched infinities: {}", array.inf_mismatches));
  lines.insert(lines.end(), array.doubts.begin(), array.doubts.end());
  return lines;
}

std::string main_reason(const ArrayDifference& array) {
  // The first mismatching element is more informative than its step.
  if (array.look && array.look->kind != compare::LookKind::kFromStep) return look_text(*array.look);
  if (array.verdict == Verdict::kDiffers)
    return fmt::format("first at {}: golden {}, out {}", index_text(array.first_mismatch),
                       array.first_golden, array.first_out);
  const auto all = reasons(array);
  return all.empty() ? "" : all.front();
}

std::string diff_table(const compare::Comparison& comparison, bool brief, bool color) {
  std::vector<const ArrayDifference*> shown;
  for (const ArrayDifference& array : comparison.arrays)
    if (!brief || array.verdict > Verdict::kWithin) shown.push_back(&array);
  std::string text;
  if (!shown.empty()) {
    std::array<size_t, 7> widths{};
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = kTitles[i].size();
      for (const auto* array : shown) widths[i] = std::max(widths[i], cells_of(*array)[i].size());
    }
    text += aligned(kTitles, widths) + kTitles.back() + '\n';
    for (const auto* array : shown) {
      const Cells cells = cells_of(*array);
      text += aligned(cells, widths);
      text += color ? color_of(array->verdict) + cells.back() + "\033[0m" : cells.back();
      text += '\n';
      for (const std::string& reason : reasons(*array))
        text += fmt::format("    {}\n", escaped(reason));
    }
  }
  return text + diff_summary(comparison) + '\n';
}

std::string diff_summary(const compare::Comparison& comparison) {
  const size_t all = comparison.arrays.size();
  std::string text = counted(all, "array");
  const char* separator = ": ";
  for (const VerdictWords& words : kVerdicts) {
    const int64_t count = comparison.count(words.verdict);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", separator, count, count == 1 ? words.one : words.many);
    separator = ", ";
  }
  if (!comparison.ignored.empty()) text += fmt::format("; {} ignored", comparison.ignored.size());
  return text;
}

std::vector<std::string> closing_lines(const DiffReport& report) {
  std::vector<std::string> lines;
  if (report.first) lines.push_back(compare::text_of(*report.first));
  if (!report.plans.empty()) lines.push_back(report.plans);
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

std::string diff_junit(const DiffReport& report) {
  const compare::Comparison& comparison = report.comparison;
  const auto fails = [strict = report.strict](const ArrayDifference& array) {
    return array.failed() || (strict && array.verdict == Verdict::kMistrusted);
  };
  std::vector<JunitCase> cases;
  for (const ArrayDifference& array : comparison.arrays) {
    std::string inside;
    std::vector<std::string> lines = reasons(array);
    if (report.first && report.first->array == array.name)
      lines.push_back(compare::text_of(*report.first));
    if (fails(array))
      inside = junit_failure(
          name_of_verdict(array.verdict) + (lines.empty() ? std::string() : ": " + lines.front()),
          xml_lines(lines));
    else if (array.verdict == Verdict::kMistrusted)
      inside = fmt::format("<system-out>mistrusted: {}</system-out>", xml_lines(lines));
    cases.push_back({"flowdiff", array.name, inside});
  }
  std::vector<std::string> lines = report.data;
  for (std::string& line : closing_lines(report)) lines.push_back(std::move(line));
  return junit("flowdiff", cases, lines);
}

std::string diff_markdown(const DiffReport& report) {
  constexpr size_t kMostRows = 20;
  std::vector<const ArrayDifference*> shown;
  for (const ArrayDifference& array : report.comparison.arrays)
    if (array.verdict > Verdict::kWithin) shown.push_back(&array);
  std::stable_partition(shown.begin(), shown.end(),
                        [](const auto* array) { return array->failed(); });
  std::string text;
  for (const std::string& line : report.data)
    text += fmt::format("**{}**\n\n", markdown_text(line));
  text += fmt::format("**{}**\n", markdown_text(diff_summary(report.comparison)));
  if (!shown.empty())
    text +=
        "\n| array | verdict | over | max abs err | max rel err | why |\n"
        "| --- | --- | ---: | ---: | ---: | --- |\n";
  const size_t rows = std::min(kMostRows, shown.size());
  for (const ArrayDifference* array : std::span(shown).first(rows))
    text += markdown_row({array->name, name_of_verdict(array->verdict), over_text(*array),
                          error_text(*array, array->absolute.error),
                          error_text(*array, array->relative.error), main_reason(*array)});
  if (shown.size() > rows)
    text += fmt::format("\nand {}\n", counted(shown.size() - rows, "more array"));
  for (const std::string& line : closing_lines(report))
    text += fmt::format("\n{}\n", markdown_text(line));
  return text + markdown_details(std::span(shown).first(rows));
}

}  // namespace flow::cli
