// Aligns tables, escapes XML, and checks and writes report files.
#include "cli/shared/reports.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "cli/shared/console.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"

namespace flow::cli {
namespace {

void append(const fs::path& path, const std::string& report) {
  std::error_code unknown;
  if (fs::exists(path, unknown) && !fs::is_regular_file(path, unknown))
    return write_text_atomically(path, report);  // for example, a pipe or a terminal
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

/// Resolves the path. /dev/stdout may lead to a pipe, which has no path: then returns the path
/// unchanged.
fs::path real_path(const fs::path& path) {
  std::error_code unknown;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), unknown);
  return unknown ? path : real;
}

/// Returns true if flow gives this name to a file of a run or of a golden directory.
bool is_known_name(const fs::path& name) {
  static const std::set<fs::path> kOthers = {"checkpoint.json", "files.json",  "scope.json",
                                             "stats.csv",       "golden.json", kTolerancesFile};
  return kOthers.contains(name) ||
         (name.has_extension() && std::ranges::count(exec::kWritten, name) > 0);
}

/// Returns true if the directory contains more files of a run than just a plan.
bool is_run(const fs::path& directory) {
  std::error_code unknown;
  return std::ranges::any_of(exec::kWritten, [&](const char* name) {
    return name != std::string_view(exec::kPlanFile) && fs::exists(directory / name, unknown);
  });
}

bool may_have_name(const fs::path& file, Output kind) {
  const fs::path name = file.filename();
  if (file.extension() == ".npy") return false;
  if (kind == Output::kPlan && name == exec::kPlanFile) return !is_run(file.parent_path());
  return !is_known_name(name) || (kind == Output::kTolerances && name == kTolerancesFile);
}

/// Returns the kind of a valuable file according to its name, or an empty string if the file may be
/// replaced.
std::string precious_kind(const fs::path& file, Output kind) {
  const fs::path extension = file.extension();
  for (const char* weights : {".npz", ".safetensors", ".onnx"})
    if (extension == weights) return "a file of arrays";
  const bool yaml = extension == ".yaml" || extension == ".yml";
  return yaml && kind != Output::kJobFile && kind != Output::kTolerances ? "a job file" : "";
}

}  // namespace

void check_output(const char* flag, const fs::path& path, Output kind,
                  const std::vector<std::string>& inputs) {
  constexpr const char* kHint = "choose another name";
  const fs::path file = real_path(path);
  if (!may_have_name(file, kind))
    throw RequestError(fmt::format("{} {} may overwrite a file of a run", flag, path.string()),
                       kHint);
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown)) return;
  for (const std::string& input : inputs)
    if (fs::equivalent(input, file, unknown))
      throw RequestError(fmt::format("{} {} would overwrite {}, which the command reads", flag,
                                     path.string(), input),
                         kHint);
  if (const std::string what = precious_kind(file, kind); !what.empty())
    throw RequestError(fmt::format("{} {} would overwrite {}", flag, path.string(), what), kHint);
}

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
  // A regular file is replaced by a new one unless the report is appended. A pipe or a terminal is
  // opened.
  const bool opened =
      fs::exists(path, unknown) && (in_place || !fs::is_regular_file(path, unknown));
  if (::access((opened ? path : parent).c_str(), opened ? W_OK : W_OK | X_OK) != 0)
    refuse(std::strerror(errno), "name a file that can be written");
}

void check_reports(const std::vector<ReportFile>& reports, const std::vector<std::string>& inputs) {
  std::vector<std::pair<const char*, fs::path>> seen;
  for (const auto& [flag, path] : reports) {
    if (!path) continue;
    if (path->empty()) throw RequestError(fmt::format("{}: empty file name", flag), "name a file");
    const fs::path file = real_path(*path);
    check_output(flag, *path, Output::kReport, inputs);
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

std::string replaced(std::string_view text,
                     std::initializer_list<std::pair<char, std::string_view>> characters) {
  std::string out;
  for (const char c : text) {
    const auto* const found =
        std::ranges::find(characters, c, &std::pair<char, std::string_view>::first);
    out += found == characters.end() ? std::string_view(&c, 1) : found->second;
  }
  return out;
}

std::string xml(const std::string& text) {
  return replaced(escaped(text), {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

std::string xml_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += xml(line) + '\n';
  return text;
}

std::string junit(const std::string& suite, const std::vector<JunitCase>& cases,
                  const std::vector<std::string>& lines, bool errors) {
  const auto count = [&](std::string_view element) {
    return std::ranges::count_if(
        cases, [&](const JunitCase& one) { return one.inside.starts_with(element); });
  };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\"{}>\n",
      xml(suite), cases.size(), count("<failure"),
      errors ? fmt::format(" errors=\"{}\"", count("<error")) : "");
  for (const JunitCase& one : cases)
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\"{}\n", one.kind, xml(one.name),
                        one.inside.empty() ? "/>" : ">\n    " + one.inside + "\n  </testcase>");
  if (!lines.empty()) text += fmt::format("  <system-out>{}</system-out>\n", xml_lines(lines));
  return text + "</testsuite>\n";
}

std::string junit_failure(const std::string& message, const std::string& more) {
  return fmt::format("<failure message=\"{}\">{}</failure>", xml(message), more);
}

std::string markdown_text(const std::string& text) {
  const std::string plain = escaped(text);
  std::string out;
  for (size_t i = 0; i < plain.size(); ++i) {
    const bool begins_block = i == 0 && (plain[i] == '#' || plain[i] == '>' || plain[i] == '[');
    const bool makes_link = plain.compare(i, 2, "](") == 0;
    if (begins_block || makes_link ||
        std::string_view("|\\`*_<").find(plain[i]) != std::string_view::npos)
      out += '\\';
    out += plain[i];
  }
  return out;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += ' ' + markdown_text(cell) + " |";
  return row + '\n';
}

std::string json_text(const OrderedJson& object) {
  return object.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

std::string counts_text(const std::vector<std::pair<size_t, const char*>>& counts) {
  std::vector<std::string> parts;
  for (const auto& [count, what] : counts)
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  return join(parts, ", ");
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = escaped(cell);
  rows_.push_back(std::move(cells));
}

void Table::align_right(size_t column) {
  right_.resize(std::max(right_.size(), column + 1));
  right_[column] = true;
}

std::vector<int> Table::widths() const {
  std::vector<int> widths;
  for (const auto& cells : rows_) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  }
  return widths;
}

void Table::fit(int columns, const std::vector<size_t>& cut, int least,
                const std::vector<size_t>& drop) {
  constexpr std::string_view kMark = "...";
  const std::vector<int> wanted = widths();
  int excess = -columns;
  for (const int width : wanted) excess += width + 2;
  for (const size_t column : cut) {
    if (excess <= 0 || column >= wanted.size() || wanted[column] <= least) continue;
    const int width = std::max(least, wanted[column] - excess);
    excess -= wanted[column] - width;
    for (auto& cells : rows_) {
      if (column >= cells.size() || width_of(cells[column]) <= width) continue;
      std::string& cell = cells[column];
      size_t end = 0;
      for (int taken = static_cast<int>(kMark.size()); end < cell.size();) {
        const Character next = character_at(cell, end);
        if ((taken += width_of(next)) > width) break;
        end += next.bytes;
      }
      cell = cell.substr(0, end).append(kMark);
    }
  }
  std::vector<size_t> dropped;
  for (const size_t column : drop) {
    if (excess <= 0) break;
    excess -= wanted[column] + 2;
    dropped.push_back(column);
  }
  std::ranges::sort(dropped, std::greater());
  for (const size_t column : dropped) erase(column);
}

void Table::erase(size_t column) {
  const auto erase_in = [column](auto& list) {
    if (column < list.size()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(column));
  };
  for (auto& cells : rows_) erase_in(cells);
  erase_in(right_);
}

std::string Table::str() const {
  const std::vector<int> widths = this->widths();
  std::string text;
  for (const auto& cells : rows_) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string rest(static_cast<size_t>(widths[i] - width_of(cells[i])), ' ');
      line += "  " + (i < right_.size() && right_[i] ? rest + cells[i] : cells[i] + rest);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace flow::cli
