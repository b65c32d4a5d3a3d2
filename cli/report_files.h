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

/// RequestError where `path` cannot be written: no such directory, no permission. Before work that
/// takes long.
void check_writable(const char* flag, const fs::path& path, bool in_place = false);

/// A report is not written over an array, a file of a run or of a golden folder, or another report,
/// nor where it cannot be: RequestError.
void check_reports(const std::vector<ReportFile>& reports);

/// Writes a report; `append`: as a paragraph of its own at the end of the file, all of it or
/// nothing. True where it went to standard output.
bool write_report_file(const std::string& path, const std::string& report, bool append_it = false);

}  // namespace flow::cli
