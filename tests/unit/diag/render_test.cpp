// Messages as the user sees them.
#include <catch2/catch.hpp>

#include "compiler/diag/diag.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"

using namespace flow;

namespace {

Span find(const Sources& sources, std::string_view text) {
  const auto begin = static_cast<uint32_t>(sources[0].text().find(text));
  return {0, begin, begin + static_cast<uint32_t>(text.size())};
}

/// The message "text" at the first occurrence of `where`, rendered.
std::string shown(std::string source, std::string_view where) {
  Sources sources;
  sources.add("a.yaml", std::move(source));
  Diags diags(sources);
  diags.error(Diagnosis::kWindow, find(sources, where), "text");
  return diags.render();
}

}  // namespace

TEST_CASE("A message shows its line, what is wrong in it, labels, notes and hints", "[diag]") {
  Sources sources;
  sources.add("lenet.yaml", "a: 1\n  conv2: {op: conv2d, kernel_size: 7}\n");
  Diags diags(sources);
  diags.error(Diagnosis::kWindow, find(sources, "kernel_size: 7"), "conv2: kernel 7 does not fit")
      .label(find(sources, "a: 1"), "here first")
      .with_note("pool1 is [64, 20, 6, 6]")
      .with_hint("kernel_size at most 6, or padding: same")
      .with_hint("");
  CHECK(diags.render() ==
        "lenet.yaml:2:23: error: conv2: kernel 7 does not fit [E0312]\n"
        "    2 |   conv2: {op: conv2d, kernel_size: 7}\n"
        "      |                       ^^^^^^^^^^^^^^\n"
        "   lenet.yaml:1:1: here first\n"
        "    1 | a: 1\n"
        "      | ----\n"
        "   pool1 is [64, 20, 6, 6]\n"
        "   hint: kernel_size at most 6, or padding: same\n");
}

TEST_CASE("A warning says so, and a message without a place shows none", "[diag]") {
  const Sources sources;
  Diags diags(sources);
  diags.warning(Diagnosis::kUnusedResult, {}, "nobody reads `x`");
  CHECK(diags.render() == "warning: nobody reads `x` [W0901]\n");
  CHECK_FALSE(diags.has_errors());
  CHECK(diags.distinct_errors() == 0);
}

TEST_CASE("Messages are sorted by place, and each is shown once", "[diag]") {
  Sources sources;
  sources.add("a.yaml", "one\ntwo\n");
  Diags diags(sources);
  for (int i = 0; i < 2; ++i) {
    diags.error(Diagnosis::kWindow, find(sources, "two"), "b");
    diags.error(Diagnosis::kWindow, find(sources, "one"), "a");
  }
  CHECK(diags.render() ==
        "a.yaml:1:1: error: a [E0312]\n    1 | one\n      | ^^^\n"
        "a.yaml:2:1: error: b [E0312]\n    2 | two\n      | ^^^\n");
  CHECK(diags.distinct_errors() == 2);
}

TEST_CASE("What is said of a silenced place is an error that is not shown", "[diag]") {
  Sources sources;
  sources.add("a.yaml", "one\n");
  Diags diags(sources);
  diags.error(Diagnosis::kEmptyValue, find(sources, "one"), "first");
  diags.silence(find(sources, "one"));
  diags.error(Diagnosis::kWindow, find(sources, "one"), "second");
  diags.error(Diagnosis::kWindow, find(sources, "on"), "third");
  CHECK(diags.error_count() == 3);
  CHECK(diags.distinct_errors() == 2);
  CHECK(diags.render().find("second") == std::string::npos);
}

TEST_CASE("Underlines count terminal columns, whatever the characters' bytes", "[diag]") {
  CHECK(shown("\u00e9\u4e2d: x", "x") ==
        "a.yaml:1:5: error: text [E0312]\n    1 | \u00e9\u4e2d: x\n      |      ^\n");
}

TEST_CASE("Tabs are shown as spaces up to the next multiple of four", "[diag]") {
  CHECK(shown("ab\tx", "x") == "a.yaml:1:4: error: text [E0312]\n    1 | ab  x\n      |     ^\n");
}

TEST_CASE("What could move the cursor or reorder text does not reach the terminal", "[diag]") {
  CHECK(shown("a\x1b[2Jb\u202e x", "x") ==
        "a.yaml:1:9: error: text [E0312]\n    1 | a\uFFFD[2Jb\uFFFD x\n      |         ^\n");
  CHECK(escaped("a\x1b\n\u202e\xff") == "a\\x1b\\n\\u202e\\xff");
}

TEST_CASE("An empty span is one caret, at the end of a line too", "[diag]") {
  Sources sources;
  sources.add("a.yaml", "ab\n");
  Diags diags(sources);
  diags.error(Diagnosis::kWindow, {0, 2, 2}, "text");
  CHECK(diags.render() == "a.yaml:1:3: error: text [E0312]\n    1 | ab\n      |   ^\n");
}

TEST_CASE("A span of several lines is underlined to the end of its first", "[diag]") {
  CHECK(shown("a: [1,  \n 2]", "[1,  \n 2]") ==
        "a.yaml:1:4: error: text [E0312]\n    1 | a: [1,\n      |    ^^^\n");
}

TEST_CASE("A long line is cut to 100 columns around what is underlined", "[diag]") {
  const std::string dots(200, '.');
  const std::string start = shown("first " + dots, "first");
  CHECK(start == "a.yaml:1:1: error: text [E0312]\n    1 | first " + dots.substr(0, 83) +
                     "...\n      | ^^^^^\n");
  const std::string middle = shown(dots + "here" + dots, "here");
  CHECK(middle == "a.yaml:1:201: error: text [E0312]\n    1 | ..." + dots.substr(0, 30) + "here" +
                      dots.substr(0, 52) + "...\n      | " + std::string(33, ' ') + "^^^^\n");
  const std::string end = shown(dots + "last", "last");
  CHECK(end == "a.yaml:1:201: error: text [E0312]\n    1 | ..." + dots.substr(0, 85) +
                   "last\n      | " + std::string(88, ' ') + "^^^^\n");
  const std::string all = shown(dots, dots);
  CHECK(all == "a.yaml:1:1: error: text [E0312]\n    1 | " + dots.substr(0, 89) + "...\n      | " +
                   std::string(89, '^') + "\n");
}

TEST_CASE("A line of a megabyte is shown around what is underlined", "[diag]") {
  const std::string long_text(1 << 20, 'x');
  const std::string message = shown(long_text + "HERE" + long_text, "HERE");
  CHECK(message.size() < 400);
  CHECK(message.find("xHEREx") != std::string::npos);
}

TEST_CASE("Hints are broken between words at 100 columns", "[diag]") {
  const Sources sources;
  Diags diags(sources);
  std::string hint;
  for (int i = 0; i < 30; ++i) hint += "word ";
  diags.error(Diagnosis::kWindow, {}, "text").with_hint(hint + "end");
  CHECK(
      diags.render() ==
      "error: text [E0312]\n   hint: word word word word word word word word word word word word "
      "word "
      "word word word word word\n      word word word word word word word word word word word word "
      "end\n");
}

TEST_CASE("Color changes no character of a message", "[diag]") {
  Sources sources;
  sources.add("a.yaml", "ab\n");
  Diags diags(sources);
  diags.error(Diagnosis::kWindow, {0, 0, 2}, "text").with_note("note").with_hint("hint");
  std::string text = diags.render({.color = true});
  CHECK(text.find("\x1b[") != std::string::npos);
  for (size_t at; (at = text.find('\x1b')) != std::string::npos;)
    text.erase(at, text.find('m', at) + 1 - at);
  CHECK(text == diags.render());
}

TEST_CASE("A narrow terminal has what follows a message's first line in its width", "[diag]") {
  Sources sources;
  sources.add("a.yaml",
              std::string(30, ' ') + "conv2: {op: conv2d, filters: 64, kernel_size: 7}\n");
  Diags diags(sources);
  diags.error(Diagnosis::kWindow, {0, 63, 77}, "it does not fit")
      .with_note("images [100, 1, 28, 28] <- conv1 [100, 32, 22, 22] <- pool1 [100, 32, 5, 5]")
      .with_hint("kernel_size at most 5, or padding: same");
  std::vector<std::string> lines = split(diags.render({.columns = 40}), '\n');
  REQUIRE(lines.size() > 5);
  lines.erase(lines.begin());  // an editor goes by it: it stays whole
  for (const std::string& line : lines) CHECK(line.size() <= 40);
  CHECK(lines[0] == "    1 | ... filters: 64, kernel_size: 7}");
  CHECK(lines[1] == "      |                  ^^^^^^^^^^^^^^");
}

TEST_CASE("More than a thousand messages end with their number", "[diag]") {
  Sources sources;
  sources.add("a.yaml", std::string(1003, 'x'));
  Diags diags(sources);
  for (uint32_t i = 0; i < 1003; ++i) diags.error(Diagnosis::kWindow, {0, i, i + 1}, "text");
  const std::string text = diags.render();
  CHECK(text.substr(text.size() - 11) == "and 3 more\n");
}
