// Each file in errors/ and renderings/ is a job file that the compiler refuses. Its last lines,
// each behind `#| `, say what is expected: in renderings/ the text that a user sees; in errors/ a
// row for each message, with its place, its code, a phrase of it, and what else it shows:
//
//   #| 11:29-46 E0310 1 pair for [4, 3, 6] of rank 3 +note +hint
//
// The texts of these labels, notes and hints are listed once, in errors/texts.txt. A line `#@ NAME`
// begins a file that the job file includes, whose lines stand behind `#> `. FLOW_REBASE=1 in the
// environment rewrites what is expected: look at the diff.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/diag/diag.h"
#include "ops/core/spec.h"
#include "runtime/base/display.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "tests/support/source_files.h"

using namespace flow;

namespace {

constexpr std::string_view kMark = "#|";

/// Diagnoses that no job file can provoke, and why.
const std::map<std::string_view, std::string_view> kNotByFile = {
    {"kFileTooLarge", "its file would have 4 MiB; tests/unit/yaml/parse_test.cpp"},
    {"kBadOverride", "a flag's text; tests/unit/job"},
    {"kOverridePath", "a flag's text; tests/unit/job"},
};

struct Golden {
  fs::path path;
  std::string input, expected;
  CompileResult result;
};

/// The expected text begins at the first line from which on every line has the mark.
Golden read_golden(const fs::path& path) {
  Golden golden = {path, read_text(path), "", {}};
  std::vector<std::string> lines = split(golden.input, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  size_t first = lines.size(), bytes = 0;
  while (first > 0 && lines[first - 1].starts_with(kMark)) --first;
  for (size_t i = 0; i < first; ++i) bytes += lines[i].size() + 1;
  for (size_t i = first; i < lines.size(); ++i)
    golden.expected += lines[i].substr(std::min(lines[i].size(), kMark.size() + 1)) + "\n";
  golden.input.resize(std::min(bytes, golden.input.size()));
  return golden;
}

void rewrite(const Golden& golden, const std::string& expected) {
  std::string text = golden.input;
  if (!text.empty() && text.back() != '\n') text += '\n';
  std::vector<std::string> lines = split(expected, '\n');
  lines.pop_back();
  for (const std::string& line : lines)
    text += std::string(kMark) + (line.empty() ? "" : " ") + line + "\n";
  write_text_atomically(golden.path, text);
}

/// A directory of its own to work in, left and gone in the end: messages show paths as they are
/// given, so the files are given by their names alone.
class FreshDirectory {
 public:
  FreshDirectory() : left_(fs::current_path()) {
    std::string name = (fs::temp_directory_path() / "flow-golden-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    fs::current_path(path_);
  }
  ~FreshDirectory() {
    fs::current_path(left_);
    fs::remove_all(path_);
  }
  FreshDirectory(const FreshDirectory&) = delete;
  FreshDirectory& operator=(const FreshDirectory&) = delete;

 private:
  fs::path left_, path_;
};

/// The files that it includes, by their names.
std::map<std::string, std::string> parts_of(const Golden& golden) {
  std::map<std::string, std::string> parts;
  std::string* part = nullptr;
  for (const std::string& line : split(golden.input, '\n')) {
    if (line.starts_with("#@ ")) part = &parts[line.substr(3)];
    if (part && line.starts_with("#> ")) *part += line.substr(3) + "\n";
  }
  return parts;
}

CompileResult compile(const Golden& golden) {
  for (const auto& [name, text] : parts_of(golden)) write_text_atomically(name, text);
  const fs::path file = golden.path.filename();
  write_text_atomically(file, golden.input);
  CompileRequest request;
  request.file = file.string();
  return compile_text(request, read_text(request.file), {.objects = true});
}

std::vector<Golden> goldens_in(std::string_view folder) {
  const FreshDirectory directory;
  std::vector<Golden> goldens;
  for (const auto& entry : fs::directory_iterator(test::source_path("tests/golden") / folder))
    if (entry.path().extension() == ".yaml") goldens.push_back(read_golden(entry.path()));
  std::ranges::sort(goldens, {}, &Golden::path);
  for (Golden& golden : goldens) golden.result = compile(golden);
  return goldens;
}

const std::vector<Golden>& tables() {
  static const std::vector<Golden> goldens = goldens_in("errors");
  return goldens;
}

const std::vector<Golden>& renderings() {
  static const std::vector<Golden> goldens = goldens_in("renderings");
  return goldens;
}

std::vector<const Golden*> all_goldens() {
  std::vector<const Golden*> all;
  for (const auto* goldens : {&tables(), &renderings()})
    for (const Golden& golden : *goldens) all.push_back(&golden);
  return all;
}

bool rebases() {
  const char* rebase = ::getenv("FLOW_REBASE");
  return rebase && std::string_view(rebase) == "1";
}

/// "11:29-46", "11:29-12:4", "included.yaml:3:1-4".
std::string place_of(const OrderedJson& message, const Golden& golden) {
  const auto number = [&](const char* key) {
    return message[key].is_null() ? std::string("?") : std::to_string(message[key].get<int>());
  };
  std::string place = number("line") + ":" + number("column") + "-";
  if (number("end_line") != number("line")) place += number("end_line") + ":";
  place += number("end_column");
  const auto file = message["file"].get<std::string>();
  return file == golden.path.filename() ? place : file + ":" + place;
}

/// The parts of a message that are not its first line, by their kinds.
std::vector<std::pair<std::string, std::string>> other_parts(const OrderedJson& message) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (const OrderedJson& label : message["related"]) parts.emplace_back("label", label["message"]);
  for (const OrderedJson& note : message["notes"]) parts.emplace_back("note", note);
  for (const OrderedJson& hint : message["hints"]) parts.emplace_back("hint", hint);
  return parts;
}

/// What a row says of a message besides a phrase of it.
struct Row {
  std::string before, after;
};

Row row_of(const OrderedJson& message, const Golden& golden) {
  Row row = {place_of(message, golden) + " " + message["code"].get<std::string>() + " ", ""};
  for (const auto& [kind, text] : other_parts(message)) row.after += " +" + kind;
  return row;
}

/// A row of the table as it is written, if it says what the message says.
bool holds(const std::string& line, const OrderedJson& message, const Golden& golden) {
  const auto [before, after] = row_of(message, golden);
  if (line.size() <= before.size() + after.size() || !line.starts_with(before) ||
      !line.ends_with(after))
    return false;
  const std::string phrase = line.substr(before.size(), line.size() - before.size() - after.size());
  return message["message"].get<std::string>().find(phrase) != std::string::npos;
}

/// A new row; its phrase is the problem, without what was expected.
std::string new_row(const OrderedJson& message, const Golden& golden) {
  const auto [before, after] = row_of(message, golden);
  const auto text = message["message"].get<std::string>();
  return before + text.substr(0, text.find("; ")) + after;
}

/// The rows with what the compiler says now: rows that hold stay as they are.
std::string table_of(const Golden& golden) {
  const std::vector<std::string> lines = split(golden.expected, '\n');
  std::string table;
  for (size_t i = 0; i < golden.result.objects.size(); ++i) {
    const OrderedJson& message = golden.result.objects[i];
    const bool stays = i < lines.size() && holds(lines[i], message, golden);
    table += (stays ? lines[i] : new_row(message, golden)) + "\n";
  }
  return table;
}

/// Each text once, sorted.
std::string texts_of(const std::vector<Golden>& goldens) {
  std::set<std::string> texts;
  for (const Golden& golden : goldens)
    for (const OrderedJson& message : golden.result.objects)
      for (const auto& [kind, text] : other_parts(message)) texts.insert(kind + ": " + text + "\n");
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

void check_or_rewrite(const Golden& golden, const std::string& expected) {
  CAPTURE(golden.path.filename().string());
  CHECK_FALSE(golden.result.messages.empty());
  if (rebases())
    rewrite(golden, expected);
  else
    CHECK(expected == golden.expected);
}

}  // namespace

TEST_CASE("The compiler says of each wrong file what its golden text says", "[golden]") {
  for (const Golden& golden : renderings()) check_or_rewrite(golden, golden.result.messages);
}

TEST_CASE("Each message has the place, code, phrase and parts of its row", "[golden]") {
  for (const Golden& golden : tables()) check_or_rewrite(golden, table_of(golden));
}

TEST_CASE("Labels, notes and hints are those of the list", "[golden]") {
  const fs::path list = test::source_path("tests/golden/errors/texts.txt");
  const std::string texts = texts_of(tables());
  if (rebases())
    write_text_atomically(list, texts);
  else
    CHECK(texts == read_text(list));
}

TEST_CASE("Each diagnosis is provoked by a golden file", "[golden]") {
  std::string messages;
  for (const Golden* golden : all_goldens()) messages += golden->result.messages;
  for (const DiagnosisInfo& info : all_diagnoses()) {
    CAPTURE(info.kind);
    const bool provoked = messages.find("[" + std::string(info.code) + "]\n") != std::string::npos;
    CHECK(provoked != kNotByFile.contains(info.kind));
  }
}

TEST_CASE("Each op is misused in a golden file", "[golden]") {
  const std::regex call(R"(op: (\w+)[,}])");
  std::set<std::string, std::less<>> misused;
  for (const Golden* golden : all_goldens())
    for (const std::string& line : split(golden->result.messages, '\n')) {
      const size_t quoted = line.find("| ");
      if (quoted == std::string::npos) continue;
      const auto from = line.begin() + static_cast<std::ptrdiff_t>(quoted);
      for (std::sregex_iterator match(from, line.end(), call), end; match != end; ++match)
        misused.insert((*match)[1]);
    }
  for (const ops::OpSpec* op : ops::all_specs()) {
    CAPTURE(op->name);
    CHECK((op->internal || misused.contains(op->name)));
  }
}

TEST_CASE("Messages begin in lower case, end without a full stop, and keep to 100 columns",
          "[golden]") {
  const std::regex header(R"(.*: (error|warning): (.*) \[[EW]\d{4}\])");
  for (const Golden* golden : all_goldens())
    for (const std::string& line : split(golden->result.messages, '\n')) {
      CAPTURE(golden->path.filename().string(), line);
      std::smatch match;
      if (!std::regex_match(line, match, header)) {
        CHECK(width_of(line) <= 100);
        continue;
      }
      const std::string message = match[2];
      CHECK_FALSE((message[0] >= 'A' && message[0] <= 'Z'));
      CHECK(message.back() != '.');
    }
}
