// Reads the reports of flowdiff, and shows their verdicts and remarks on the report itself.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "cli/flowdiff/report.h"
#include "cli/report/sections.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json.h"

namespace flow::cli::report {
namespace {

constexpr uint64_t kLargest = 16 << 20;

/// Null where it is not JSON, or nested too deeply.
Json parse_bounded(const std::string& text) {
  try {
    return plan::parse_json(text, "");
  } catch (const RequestError&) {
    return nullptr;
  }
}

/// A run directory has other JSON files, too.
bool is_comparison(const Json& json) {
  return json.is_object() && json.contains("golden") && json.contains("summary") &&
         json.contains("arrays");
}

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

DiffReport read_comparison(const fs::path& path) {
  const auto refuse = [&](const std::string& what) {
    return RequestError(fmt::format("--diff {}: {}", path.string(), what),
                        "write it with flowdiff GOLDEN OUT --json FILE");
  };
  std::error_code error;
  if (!fs::exists(path, error)) throw refuse("no such file");
  if (!fs::is_regular_file(path, error)) throw refuse("not a file");
  if (const uint64_t size = fs::file_size(path, error); error || size > kLargest)
    throw refuse(fmt::format("it has more than {}", human_bytes(kLargest)));
  try {
    return read_diff_json(parse_bounded(read_text(path)));
  } catch (const RequestError& wrong) {
    throw refuse(wrong.what());
  }
}

std::vector<DiffReport> find_comparisons(RunData& run) {
  constexpr size_t kMostFiles = 32;
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run.directory, error))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.size() > kMostFiles) {
    run.note(fmt::format("only the first {} of {} JSON files are looked at for comparisons",
                         kMostFiles, files.size()));
    files.resize(kMostFiles);
  }
  std::vector<DiffReport> found;
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    if (name == exec::kPlanFile || name == exec::kRunRecord || name == "profile.json") continue;
    const auto text = read_bounded(path, kLargest, run);
    if (!text) continue;
    const Json json = parse_bounded(*text);
    if (!is_comparison(json)) continue;
    try {
      found.push_back(read_diff_json(json));
    } catch (const RequestError& wrong) {
      run.note(fmt::format("{} is left out: {}", name, wrong.what()));
    }
  }
  return found;
}

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
