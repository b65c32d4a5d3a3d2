// What `flowdiff --self-test` found, as JSON, JUnit and Markdown.
#include "cli/flowdiff/self_test_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/flowdiff/words.h"
#include "cli/shared/xml.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

using compare::MissedFault;
using compare::SelfTest;

std::string sizes_text(const MissedFault& fault) {
  if (fault.sizes.empty()) return "any";
  const bool numbers = fault.sizes.front().find('%') != std::string::npos;
  return numbers ? "up to " + fault.sizes.front() : join(fault.sizes, ", ");
}

std::string self_test_summary(const SelfTest& test) {
  return fmt::format("{} of {} found", test.found,
                     counted(static_cast<uint64_t>(test.injected), "fault"));
}

std::string self_test_json(const std::string& golden, const SelfTest& test) {
  OrderedJson json{{"golden", golden},
                   {"injected", test.injected},
                   {"found", test.found},
                   {"missed", OrderedJson::array()},
                   {"not_tested", test.skipped}};
  for (const MissedFault& missed : test.missed)
    json["missed"].push_back(
        {{"array", missed.array}, {"fault", missed.fault}, {"sizes", missed.sizes}});
  // Names of files need not be UTF-8.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

std::string self_test_junit(const SelfTest& test, bool strict) {
  const auto misses = [](const SelfTest::Array& array) { return array.found < array.injected; };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"flowdiff --self-test\" tests=\"{}\" failures=\"{}\">\n",
      test.arrays.size(), strict ? std::ranges::count_if(test.arrays, misses) : 0);
  for (const SelfTest::Array& array : test.arrays) {
    text += fmt::format("  <testcase classname=\"flowdiff\" name=\"{}\"", xml(array.name));
    std::vector<std::string> lines;
    for (const MissedFault& missed : test.missed)
      if (missed.array == array.name)
        lines.push_back(fmt::format("{} not detected: {}", missed.fault, sizes_text(missed)));
    if (lines.empty())
      text += "/>\n";
    else if (strict)
      text += fmt::format(
          ">\n    <failure message=\"{} of {} found\">{}</failure>\n  </testcase>\n", array.found,
          counted(static_cast<uint64_t>(array.injected), "fault"), xml_lines(lines));
    else
      text += fmt::format(">\n    <system-out>{}</system-out>\n  </testcase>\n", xml_lines(lines));
  }
  std::vector<std::string> lines = {self_test_summary(test)};
  for (const std::string& skipped : test.skipped) lines.push_back("not tested: " + skipped);
  return text + fmt::format("  <system-out>{}</system-out>\n</testsuite>\n", xml_lines(lines));
}

std::string self_test_markdown(const SelfTest& test) {
  constexpr size_t kMostRows = 50;
  std::string text = fmt::format("**{}**\n", self_test_summary(test));
  if (!test.missed.empty()) text += "\n| array | fault | not detected |\n| --- | --- | --- |\n";
  const size_t rows = std::min(kMostRows, test.missed.size());
  for (size_t i = 0; i < rows; ++i) {
    const MissedFault& missed = test.missed[i];
    text += fmt::format("| {} | {} | {} |\n", markdown_text(missed.array),
                        markdown_text(missed.fault), markdown_text(sizes_text(missed)));
  }
  if (test.missed.size() > rows)
    text += fmt::format("\nand {}\n", counted(test.missed.size() - rows, "more fault"));
  for (const std::string& skipped : test.skipped)
    text += fmt::format("\nnot tested: {}\n", markdown_text(skipped));
  return text;
}

}  // namespace flow::cli
