// Files that reports are written to.
#include "cli/report_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "cli/console.h"
#include "runtime/base/error.h"

namespace flow::cli {
namespace {

void append(const fs::path& path, const std::string& report) {
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

}  // namespace

void check_writable(const char* flag, const fs::path& path, bool in_place) {
  const auto refuse = [&](const std::string& why, const char* hint) {
    throw RequestError(fmt::format("{}: cannot write {}: {}", flag, path.string(), why), hint);
  };
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) refuse("is a directory", "name a file");
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (!fs::exists(parent, unknown))
    refuse(fmt::format("directory {} does not exist", parent.string()), "create the directory");
  if (!fs::is_directory(parent, unknown))
    refuse(fmt::format("{} is not a directory", parent.string()), "name a file in a directory");
  // A file is replaced by a new one, unless it is appended to; a pipe or a terminal is opened.
  const bool opened =
      fs::exists(path, unknown) && (in_place || !fs::is_regular_file(path, unknown));
  if (::access((opened ? path : parent).c_str(), opened ? W_OK : W_OK | X_OK) != 0)
    refuse(std::strerror(errno), "name a file that can be written");
}

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
    if (*path != "-") check_writable(flag, *path, std::string_view(flag) == "--md-append");
    seen.emplace_back(flag, file);
  }
}

bool write_report_file(const std::string& path, const std::string& report, bool append_it) {
  if (path == "-") {
    print(report);
    return true;
  }
  if (append_it)
    append(path, report);
  else
    write_text_atomically(path, report);
  return false;
}

}  // namespace flow::cli
