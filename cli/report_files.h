// Files that reports are written to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace flow::cli {

/// A flag, and the file that it names; `-` is standard output.
struct ReportFile {
  const char* flag;
  std::optional<std::string> path;
};

/// A report is not written over an array, a file of a run or of a golden folder, or another report:
/// RequestError.
void check_reports(const std::vector<ReportFile>& reports);

/// Adds a report to a file, as a paragraph of its own; all of it, or nothing.
void append_report(const fs::path& path, const std::string& report);

}  // namespace flow::cli
