// The sections with the verdicts of flowdiff, notes about the report itself, the network, and its
// memory.
#include "cli/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "cli/flowdiff/report.h"
#include "cli/show/job_tree.h"
#include "cli/show/picture.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli::report {
namespace {

constexpr uint64_t kLargest = 16 << 20;

/// Returns null if the text is not JSON or is nested too deeply.
Json parse_bounded(const std::string& text) {
  try {
    return plan::parse_json(text, "");
  } catch (const RequestError&) {
    return nullptr;
  }
}

/// Returns true if the JSON is a comparison. A run directory also contains other JSON files.
bool is_comparison(const Json& json) {
  return json.is_object() && json.contains("golden") && json.contains("summary") &&
         json.contains("arrays");
}

using compare::ArrayDifference;
using compare::Verdict;

Html note(std::string_view text) { return fragment("note", {{"text", Html::text(text, 600)}}); }

/// The style and the mark of a verdict. The mark distinguishes verdicts without color.
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
                   {"kind", badge.kind},
                   {"mark", badge.mark},
                   {"verdict", Html::text(name_of_verdict(array.verdict), 40)},
                   {"absolute", Html::text(error_text(array, array.absolute.error), 40)},
                   {"relative", Html::text(error_text(array, array.relative.error), 40)},
                   {"over", Html::text(over, 60)},
                   {"why", main_reason(array)}});
}

Html table_of(const DiffReport& report) {
  constexpr size_t kMostRows = 50, kMostNotes = 20;
  std::vector<const ArrayDifference*> shown;
  for (const ArrayDifference& array : report.comparison.arrays) shown.push_back(&array);
  // Failed arrays come first, followed by mistrusted ones.
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
  return fragment("comparison", {{"golden", report.golden},
                                 {"out", report.out},
                                 {"kind", badge_of(outcome).kind},
                                 {"mark", badge_of(outcome).mark},
                                 {"verdict", name_of(outcome)},
                                 {"summary", diff_summary(report.comparison)},
                                 {"rows", rows},
                                 {"notes", notes}});
}

constexpr size_t kMostNetworks = 6, kLargestPicture = 2 << 20, kMostSteps = 20'000;

/// Draws a job. `name` is the displayed name of the run.
Html picture_of_job(const fs::path& directory, const std::string& name, const plan::Job& job,
                    bool open) {
  const std::string title = name.empty() ? job.name : fmt::format("{}, {}", job.name, name);
  if (job.steps.size() > kMostSteps)
    return fragment("omitted", {{"text", fmt::format("{}: {} steps are too many for a picture",
                                                     title, grouped_digits(job.steps.size()))}});
  const std::string svg =
      to_svg(picture_of(job, tree_of(job, entries_of_plan(job)), {.hooks = true}));
  if (svg.size() > kLargestPicture)
    return fragment("omitted",
                    {{"text", fmt::format("{}: the picture has {}; draw it with flowc "
                                          "show {} --job {} --format svg",
                                          title, human_bytes(svg.size()),
                                          (directory / "plan.json").string(), job.name)}});
  return fragment("picture",
                  {{"title", title}, {"open", open ? " open" : ""}, {"svg", Html::trusted(svg)}});
}

/// Returns {"steps": 7, "always": 1024, "live": [...]} with the bytes at each step. If there are
/// too many steps, each number is the maximum of several neighboring steps.
std::string json_of(const StepMemory& memory) {
  constexpr size_t kMost = 600;
  const size_t stride = (memory.live.size() + kMost - 1) / kMost;
  std::vector<size_t> live;
  for (size_t i = 0; i < memory.live.size(); i += stride)
    live.push_back(std::ranges::max(
        std::span(memory.live).subspan(i, std::min(stride, memory.live.size() - i))));
  return fmt::format(R"({{"steps":{},"always":{},"live":[{}]}})", memory.live.size(),
                     memory.variables + memory.inputs, fmt::join(live, ","));
}

Html holders_of(const plan::Job& job, const StepMemory& memory) {
  constexpr size_t kMost = 12;
  const std::vector<exec::Holding> holders = memory.at_peak();
  Html rows;
  for (size_t i = 0; i < std::min(kMost, holders.size()); ++i) {
    const auto& [tensor, block] = holders[i];
    rows += fragment("holder",
                     {{"name", Html::text(job[tensor].name, 120)},
                      {"bytes", human_bytes(block.bytes)},
                      {"steps", fmt::format("{} to {}", block.first, block.last)},
                      {"share", Html::trusted(fmt::format(
                                    "{:.4g}", 100 * static_cast<double>(block.bytes) /
                                                  static_cast<double>(holders[0].block.bytes)))}});
  }
  if (holders.size() > kMost)
    rows +=
        fragment("more holders",
                 {{"text", fmt::format("and {} more", grouped_digits(holders.size() - kMost))}});
  return rows;
}

Html memory_of(const plan::Job& job) {
  const StepMemory memory(job);
  if (memory.peak() == 0) return {};
  const size_t total = memory.variables + memory.inputs + memory.peak();
  return fragment("memory", {{"total", human_bytes(total)},
                             {"variables", human_bytes(memory.variables)},
                             {"inputs", human_bytes(memory.inputs)},
                             {"results", human_bytes(memory.peak())},
                             {"where", Html::text(fmt::format("step {}, {}", memory.fullest,
                                                              job.steps[memory.fullest].name),
                                                  120)},
                             {"bytes", Html::trusted(json_of(memory))},
                             {"holders", holders_of(job, memory)}});
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

Html network_section(const Report& report) {
  Html pictures;
  std::set<std::string> seen;
  size_t drawn = 0, left_out = 0;
  for (const RunData& run : report.runs) {
    if (!run.job) continue;
    std::vector<const plan::Job*> jobs = plan::sub_jobs_of(*run.plan, *run.job);
    jobs.insert(jobs.begin(), run.job);
    for (const plan::Job* job : jobs) {
      // If there are several runs, the titles after the first picture include the name of the run.
      const std::string name = report.runs.size() > 1 && !seen.empty() ? run.name : "";
      const Html picture = picture_of_job(run.directory, name, *job, drawn == 0);
      // The same network in another run is not drawn again.
      const size_t svg = picture.str().find("<svg");
      if (!seen.insert(job->name + picture.str().substr(std::min(svg, picture.str().size())))
               .second)
        continue;
      if (drawn == kMostNetworks) {
        ++left_out;
        continue;
      }
      pictures += picture;
      ++drawn;
    }
  }
  if (drawn == 0) return {};
  if (left_out > 0)
    pictures += fragment(
        "omitted", {{"text", fmt::format("{} left out", counted(left_out, "other network"))}});
  return section("network", "Network", "", pictures);
}

Html memory_section(const Report& report) {
  for (const RunData& run : report.runs) {
    if (!run.job || run.job->steps.size() > kMostSteps) continue;
    const Html body = memory_of(*run.job);
    if (body.empty()) continue;
    const std::string of = report.runs.size() > 1 ? "job " + run.job->name + " of " + run.name
                                                  : "job " + run.job->name;
    return section("memory", "Memory", of + ", without workspaces and layouts of a backend", body);
  }
  return {};
}

}  // namespace flow::cli::report
