// Reads runs and assembles the sections of the report.
#include "cli/flowc/flowc.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "cli/report/page.h"
#include "cli/shared/console.h"
#include "cli/shared/reports.h"
#include "flow_version.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace report {
namespace {

constexpr size_t kMostRuns = 100;

/// Names the runs without the prefix that all of them share: "lr-0.1" for "runs/lr-0.1" next to
/// "runs/lr-0.2".
void name_runs(std::vector<RunData>& runs) {
  std::vector<fs::path> paths;
  for (const RunData& run : runs) {
    fs::path path = run.directory.lexically_normal();
    if (path.filename().empty()) path = path.parent_path();
    paths.push_back(path);
  }
  fs::path common = paths.front().parent_path();
  const auto is_below = [&](const fs::path& path) {
    return std::mismatch(common.begin(), common.end(), path.begin(), path.end()).first ==
           common.end();
  };
  while (!common.empty() && !std::ranges::all_of(paths, is_below)) {
    if (common == common.parent_path()) common.clear();
    common = common.parent_path();
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const fs::path name = common.empty() ? paths[i] : paths[i].lexically_relative(common);
    runs[i].name = clipped(name.string(), 80);
  }
}

void check_directories(const FlowcOptions& options) {
  if (options.files.size() > kMostRuns)
    throw RequestError(
        fmt::format("{} runs; a report shows at most {}", options.files.size(), kMostRuns),
        "write several reports");
  std::set<fs::path> seen;
  for (const std::string& directory : options.files) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(directory, error)).second)
      throw RequestError(fmt::format("{} is given twice", directory), "name each run once");
  }
}

/// Returns true if the file is empty or begins like a report.
bool is_replaceable(const fs::path& path) {
  std::string head(1024, '\0');
  File file = File::open_read(path);
  head.resize(file.read(std::as_writable_bytes(std::span(head))));
  return head.empty() || head.find("content=\"flowc report\"") != head.npos;
}

/// Throws RequestError if the output would replace a file that is not a report.
void check_target(const FlowcOptions& options) {
  if (options.output == "-") return;
  check_reports({{"-o", options.output}}, options.diffs);
  std::error_code unknown;
  if (!options.force && fs::is_regular_file(options.output, unknown) &&
      !is_replaceable(options.output))
    throw RequestError(fmt::format("{} exists and is not a report", options.output),
                       "replace it with --force, or name another file with -o");
}

Report read_report(const FlowcOptions& options) {
  Report report;
  for (const std::string& directory : options.files) report.runs.push_back(read_run(directory));
  name_runs(report.runs);
  for (RunData& run : report.runs) {
    report.arrays.push_back(read_arrays(run));
    for (DiffReport& found : find_comparisons(run)) report.comparisons.push_back(std::move(found));
  }
  for (const std::string& file : options.diffs) report.comparisons.push_back(read_comparison(file));
  return report;
}

/// Returns "lenet.yaml, train", or only the parts that are known.
std::string title_of(const Report& report) {
  std::set<std::string> sources, jobs;
  for (const RunData& run : report.runs) {
    const std::string source = run.record ? run.record->source : run.plan ? run.plan->source : "";
    if (!source.empty()) sources.insert(fs::path(source).filename().string());
    if (run.record && !run.record->job.empty())
      jobs.insert(run.record->job);
    else if (run.job)
      jobs.insert(run.job->name);
  }
  std::vector<std::string> parts;
  parts.push_back(sources.size() == 1 ? *sources.begin()
                  : sources.empty()   ? report.runs.front().name
                                      : fmt::format("{} job files", sources.size()));
  if (jobs.size() == 1) parts.push_back(*jobs.begin());
  return join(parts, ", ");
}

struct Part {
  const char *id, *title;
  Html (*make)(const Report&);
};

constexpr Part kParts[] = {
    {"run", "Runs", runs_section},
    {"curves", "Metrics", curves_section},
    {"comparisons", "Comparisons", comparisons_section},
    {"distributions", "Distributions", distributions_section},
    {"samples", "Returned", samples_section},
    {"network", "Network", network_section},
    {"memory", "Memory", memory_section},
    {"notes", "Left out", notes_section},
};

std::string page_of(const Report& report) {
  Html links, sections;
  for (const Part& part : kParts) {
    const Html made = part.make(report);
    if (made.empty()) continue;
    sections += made;
    links += fragment("link", {{"id", part.id}, {"title", part.title}});
  }
  const Html title = Html::text(title_of(report));
  return fragment("page", {{"title", title},
                           {"remark", fmt::format("{} · report written {} by flow {}",
                                                  counted(report.runs.size(), "run"), utc_time(),
                                                  FLOW_VERSION)},
                           {"style", Html::trusted(std::string(page::kStyle))},
                           {"script", Html::trusted(std::string(page::kScript))},
                           {"links", links},
                           {"sections", sections}})
      .str();
}

}  // namespace
}  // namespace report

int write_report(const FlowcOptions& options) {
  report::check_directories(options);
  report::check_target(options);
  const report::Report read = report::read_report(options);
  const bool has_metrics = std::ranges::any_of(
      read.runs, [](const auto& run) { return !run.curves.empty() || !run.matrices.empty(); });
  write_output(options, report::page_of(read), Output::kReport);
  if (options.output == "-") return kDone;
  print_to_stderr(fmt::format("{}: {}{}\n", escaped(options.output),
                              counted(read.runs.size(), "run"),
                              has_metrics ? ""
                                          : ", without metrics: train jobs and print sinks "
                                            "with `reduce` write them"));
  return kDone;
}

}  // namespace flow::cli
