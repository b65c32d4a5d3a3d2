// The building blocks of reports, such as tables and XML, and the files that reports are written
// to.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

/// A flag and the file that it names; `-` is standard output.
struct ReportFile {
  const char* flag;
  std::optional<std::string> path;
};

/// Throws RequestError if `path` cannot be written, for example because its directory is missing or
/// permission is denied. Called before lengthy work.
void check_writable(const char* flag, const fs::path& path, bool in_place = false);

inline constexpr const char* kTolerancesFile = "tolerances.yaml";

/// The kind of output that a command writes to a file that a flag names.
enum class Output {
  kReport,      // JSON, JUnit, Markdown, HTML, a schema
  kPlan,        // `plan.json`, but not in the directory of a run
  kJobFile,     // may replace another job file
  kTolerances,  // `tolerances.yaml` of a golden directory
};

/// Throws RequestError if an output of this kind would replace an array, weights, a job file, a
/// file of a run or of a golden directory, or one of `inputs`, which the command reads.
void check_output(const char* flag, const fs::path& path, Output kind,
                  const std::vector<std::string>& inputs = {});

/// Checks each report with check_output. Throws RequestError also if two reports would use the same
/// file, or if a report cannot be written.
void check_reports(const std::vector<ReportFile>& reports,
                   const std::vector<std::string>& inputs = {});

/// Writes a report. With `append_it`, appends it as a separate paragraph at the end of the file,
/// completely or not at all. Returns true if the report went to standard output.
bool write_report_file(const std::string& path, const std::string& report, bool append_it = false);

/// Returns the text with some characters replaced by other texts.
std::string replaced(std::string_view text,
                     std::initializer_list<std::pair<char, std::string_view>> characters);

/// Escapes text for an XML attribute or element. Characters that XML cannot represent are escaped
/// as on a terminal.
std::string xml(const std::string& text);

/// Escapes lines for an XML element and ends each with a line break.
std::string xml_lines(const std::vector<std::string>& lines);

/// A test case of a JUnit test suite.
struct JunitCase {
  std::string kind, name;
  std::string inside = {};  // XML with the failure or other output; may be empty
};
/// Returns a test suite whose output is `lines`. With `errors`, the suite states how many cases
/// have an error.
std::string junit(const std::string& suite, const std::vector<JunitCase>& cases,
                  const std::vector<std::string>& lines = {}, bool errors = false);
/// Returns the failure inside a case: the message, followed by more XML.
std::string junit_failure(const std::string& message, const std::string& more);

/// Escapes text for a line or a cell of Markdown.
std::string markdown_text(const std::string& text);
/// Returns a row of a Markdown table.
std::string markdown_row(const std::vector<std::string>& cells);

/// Returns the object on several lines. Bytes that are not UTF-8, which file names may contain,
/// become U+FFFD.
std::string json_text(const OrderedJson& object);

/// Returns counts with their words, without those that are 0: "3 added, 1 removed".
std::string counts_text(const std::vector<std::pair<size_t, const char*>>& counts);

/// Rows of cells, printed with each column as wide as its widest cell.
class Table {
 public:
  /// Adds a row. Characters that would control a terminal are escaped.
  void row(std::vector<std::string> cells);
  /// Aligns a column of numbers right.
  void align_right(size_t column);
  /// Makes the rows fit into `columns`. Cells are shortened to "like th..." in the columns `cut`,
  /// one column after another, but never to fewer than `least` characters. If that is not enough,
  /// the columns `drop` are removed one after another.
  void fit(int columns, const std::vector<size_t>& cut, int least,
           const std::vector<size_t>& drop = {});
  bool empty() const { return rows_.empty(); }
  std::string str() const;

 private:
  std::vector<int> widths() const;
  void erase(size_t column);

  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace flow::cli
