// Each file in errors/ is a job file followed by what the compiler must say of it, every line of
// that behind `#| `. A line `#@ NAME` begins a file that it includes, whose lines stand behind
// `#> `. FLOW_REBASE=1 in the environment rewrites what is expected: look at the diff.
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
};

/// The expected text begins at the first line from which on every line has the mark.
Golden read_golden(const fs::path& path) {
  Golden golden = {path, read_text(path), ""};
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

void rewrite(const Golden& golden, const std::string& messages) {
  std::string text = golden.input;
  if (!text.empty() && text.back() != '\n') text += '\n';
  std::vector<std::string> lines = split(messages, '\n');
  lines.pop_back();
  for (const std::string& line : lines)
    text += std::string(kMark) + (line.empty() ? "" : " ") + line + "\n";
  write_text_atomically(golden.path, text);
}

std::vector<Golden> all_goldens() {
  std::vector<Golden> goldens;
  for (const auto& entry : fs::directory_iterator(test::source_path("tests/golden/errors")))
    if (entry.path().extension() == ".yaml") goldens.push_back(read_golden(entry.path()));
  std::sort(goldens.begin(), goldens.end(),
            [](const Golden& a, const Golden& b) { return a.path < b.path; });
  return goldens;
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

std::string messages_of(const Golden& golden) {
  for (const auto& [name, text] : parts_of(golden)) write_text_atomically(name, text);
  const fs::path file = golden.path.filename();
  write_text_atomically(file, golden.input);
  CompileRequest request;
  request.file = file.string();
  return compile_text(request, read_text(request.file)).messages;
}

}  // namespace

TEST_CASE("The compiler says of each wrong file what its golden text says", "[golden]") {
  const FreshDirectory directory;
  const char* rebase = ::getenv("FLOW_REBASE");
  for (const Golden& golden : all_goldens()) {
    CAPTURE(golden.path.filename().string());
    const std::string messages = messages_of(golden);
    CHECK_FALSE(messages.empty());
    if (rebase && std::string_view(rebase) == "1")
      rewrite(golden, messages);
    else
      CHECK(messages == golden.expected);
  }
}

TEST_CASE("Each diagnosis is provoked by a golden file", "[golden]") {
  std::string expected;
  for (const Golden& golden : all_goldens()) expected += golden.expected;
  for (const DiagnosisInfo& info : all_diagnoses()) {
    CAPTURE(info.kind);
    const bool provoked = expected.find("[" + std::string(info.code) + "]\n") != std::string::npos;
    CHECK(provoked != kNotByFile.contains(info.kind));
  }
}

TEST_CASE("Each op is misused in a golden file", "[golden]") {
  const std::regex call(R"(op: (\w+)[,}])");
  std::set<std::string, std::less<>> misused;
  for (const Golden& golden : all_goldens())
    for (const std::string& line : split(golden.expected, '\n')) {
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
  for (const Golden& golden : all_goldens())
    for (const std::string& line : split(golden.expected, '\n')) {
      CAPTURE(golden.path.filename().string(), line);
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
