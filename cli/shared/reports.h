// What reports are made of, tables and XML, and the files that they are written to.
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

/// A flag, and the file that it names; `-` is standard output.
struct ReportFile {
  const char* flag;
  std::optional<std::string> path;
};

/// RequestError where `path` cannot be written: no such directory, no permission. Called before
/// work that takes long.
void check_writable(const char* flag, const fs::path& path, bool in_place = false);

inline constexpr const char* kTolerancesFile = "tolerances.yaml";

/// What a command writes where a flag says.
enum class Output {
  kReport,      // JSON, JUnit, Markdown, HTML, a schema
  kPlan,        // `plan.json`, but not in the directory of a run
  kJobFile,     // in the place of another one
  kTolerances,  // `tolerances.yaml` of a golden directory
};

/// RequestError where a file of that kind would replace an array, weights, a job file, a file of a
/// run or of a golden directory, or one of `inputs`, which the command reads.
void check_output(const char* flag, const fs::path& path, Output kind,
                  const std::vector<std::string>& inputs = {});

/// Such a check of each report; reports do not replace each other, either. RequestError also where
/// one cannot be written.
void check_reports(const std::vector<ReportFile>& reports,
                   const std::vector<std::string>& inputs = {});

/// Writes a report; `append`: as a paragraph of its own at the end of the file, all of it or
/// nothing. True where it went to standard output.
bool write_report_file(const std::string& path, const std::string& report, bool append_it = false);

/// The text with other texts in place of some characters.
std::string replaced(std::string_view text,
                     std::initializer_list<std::pair<char, std::string_view>> characters);

/// Text inside an XML attribute or element. What XML cannot hold is escaped, as on a terminal.
std::string xml(const std::string& text);

/// Lines inside an XML element, each with its end.
std::string xml_lines(const std::vector<std::string>& lines);

/// A case of a JUnit test suite.
struct JunitCase {
  std::string kind, name;
  std::string inside = {};  // XML that says why it fails, or what there is to say; may be empty
};
/// A test suite; `lines` are its output. `errors`: it says how many cases have an error.
std::string junit(const std::string& suite, const std::vector<JunitCase>& cases,
                  const std::vector<std::string>& lines = {}, bool errors = false);
/// Inside a case: the message, and more in XML.
std::string junit_failure(const std::string& message, const std::string& more);

/// Text within a line or a cell of Markdown, escaped.
std::string markdown_text(const std::string& text);
/// A row of a table.
std::string markdown_row(const std::vector<std::string>& cells);

/// An object over several lines. Bytes that are no UTF-8 become U+FFFD: names of files may have
/// them.
std::string json_text(const OrderedJson& object);

/// "3 added, 1 removed": counts with their words, without those that are 0.
std::string counts_text(const std::vector<std::pair<size_t, const char*>>& counts);

/// Rows of cells, printed with each column as wide as its widest cell.
class Table {
 public:
  /// What a terminal would obey is escaped in them.
  void row(std::vector<std::string> cells);
  /// Its cells are numbers, which end at one place.
  void align_right(size_t column);
  /// Cells that make rows wider than `columns` are cut, "like th...", in these columns one after
  /// another until rows fit; none is cut to fewer than `least` characters. Where that is not
  /// enough, columns of `drop` go, one after another.
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
