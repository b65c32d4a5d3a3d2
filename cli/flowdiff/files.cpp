// What flowdiff found, as JUnit and Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "cli/flowdiff/report.h"
#include "cli/flowdiff/words.h"
#include "cli/shared/xml.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

using compare::ArrayDifference;
using compare::Verdict;

std::string markdown_row(const ArrayDifference& array) {
  std::string row = "|";
  for (const std::string& cell : {array.name, std::string(name_of_verdict(array.verdict)),
                                  over_text(array), error_text(array, array.absolute.error),
                                  error_text(array, array.relative.error), main_reason(array)})
    row += ' ' + markdown_text(cell) + " |";
  return row + '\n';
}

/// What the cells have no room for, folded away.
std::string markdown_details(std::span<const ArrayDifference* const> arrays) {
  std::string text;
  for (const ArrayDifference* array : arrays) {
    const auto lines = reasons(*array);
    if (lines.size() < 2) continue;
    text += fmt::format("\n{}\n\n", markdown_text(array->name));
    for (const std::string& line : lines) text += fmt::format("- {}\n", markdown_text(line));
  }
  if (text.empty()) return text;
  return fmt::format("\n<details><summary>details</summary>\n{}\n</details>\n", text);
}

}  // namespace

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

std::string xml_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += xml(line) + '\n';
  return text;
}

std::string diff_junit(const DiffReport& report) {
  const compare::Comparison& comparison = report.comparison;
  const auto fails = [strict = report.strict](const ArrayDifference& array) {
    return array.failed() || (strict && array.verdict == Verdict::kMistrusted);
  };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"flowdiff\" tests=\"{}\" failures=\"{}\">\n",
      comparison.arrays.size(), std::ranges::count_if(comparison.arrays, fails));
  for (const ArrayDifference& array : comparison.arrays) {
    text += fmt::format("  <testcase classname=\"flowdiff\" name=\"{}\"", xml(array.name));
    std::vector<std::string> lines = reasons(array);
    if (report.first && report.first->array == array.name)
      lines.push_back(compare::text_of(*report.first));
    if (fails(array))
      text += fmt::format(">\n    <failure message=\"{}{}\">{}</failure>\n  </testcase>\n",
                          name_of_verdict(array.verdict),
                          lines.empty() ? "" : ": " + xml(lines.front()), xml_lines(lines));
    else if (array.verdict == Verdict::kMistrusted)
      text += fmt::format(">\n    <system-out>mistrusted: {}</system-out>\n  </testcase>\n",
                          xml_lines(lines));
    else
      text += "/>\n";
  }
  std::vector<std::string> lines = report.data;
  for (std::string& line : closing_lines(report)) lines.push_back(std::move(line));
  if (!lines.empty()) text += fmt::format("  <system-out>{}</system-out>\n", xml_lines(lines));
  return text + "</testsuite>\n";
}

std::string diff_markdown(const DiffReport& report) {
  constexpr size_t kMostRows = 20;
  std::vector<const ArrayDifference*> shown;
  for (const ArrayDifference& array : report.comparison.arrays)
    if (array.verdict > Verdict::kWithin) shown.push_back(&array);
  std::stable_partition(shown.begin(), shown.end(),
                        [](const auto* array) { return array->failed(); });
  std::string text;
  for (const std::string& line : report.data)
    text += fmt::format("**{}**\n\n", markdown_text(line));
  text += fmt::format("**{}**\n", markdown_text(diff_summary(report.comparison)));
  if (!shown.empty())
    text +=
        "\n| array | verdict | over | max abs err | max rel err | why |\n"
        "| --- | --- | ---: | ---: | ---: | --- |\n";
  const size_t rows = std::min(kMostRows, shown.size());
  for (size_t i = 0; i < rows; ++i) text += markdown_row(*shown[i]);
  if (shown.size() > rows)
    text += fmt::format("\nand {}\n", counted(shown.size() - rows, "more array"));
  for (const std::string& line : closing_lines(report))
    text += fmt::format("\n{}\n", markdown_text(line));
  return text + markdown_details(std::span(shown).first(rows));
}

}  // namespace flow::cli
