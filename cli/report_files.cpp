// Files that reports are written to.
#include "cli/report_files.h"

#include <fmt/format.h>

#include <set>
#include <span>
#include <utility>

#include "runtime/base/error.h"

namespace flow::cli {

void check_reports(const std::vector<ReportFile>& reports) {
  std::vector<std::pair<const char*, fs::path>> seen;
  for (const auto& [flag, path] : reports) {
    if (!path) continue;
    if (path->empty()) throw RequestError(fmt::format("{}: empty file name", flag), "name a file");
    std::error_code unknown;  // /dev/stdout may lead to a pipe, which has no path
    fs::path file = fs::weakly_canonical(fs::absolute(*path), unknown);
    if (unknown) file = *path;
    static const std::set<fs::path> kOfRuns = {"plan.json",       "run.json",       "metrics.jsonl",
                                               "checkpoint.json", "scope.json",     "profile.json",
                                               "golden.json",     "tolerances.yaml"};
    if (file.extension() == ".npy" || kOfRuns.contains(file.filename()))
      throw RequestError(fmt::format("{} {} may overwrite a file of a run", flag, *path),
                         "choose another name for the report");
    for (const auto& [before, other] : seen)
      if (other == file)
        throw RequestError(fmt::format("{} and {} name the same file", before, flag));
    seen.emplace_back(flag, file);
  }
}

void append_report(const fs::path& path, const std::string& report) {
  std::error_code unknown;
  if (fs::exists(path, unknown) && !fs::is_regular_file(path, unknown))
    return write_text_atomically(path, report);  // a pipe or a terminal
  File file = File::open_update(path);
  const uint64_t before = file.size();
  const std::string text = before > 0 ? '\n' + report : report;
  try {
    file.write_at(before, std::as_bytes(std::span(text)));
  } catch (const RunError&) {
    file.truncate(before);
    throw;
  }
}

}  // namespace flow::cli
