// `flowdiff --self-test GOLDEN`: would the tolerances notice? The answer as a table, JSON, JUnit
// and Markdown.
#include <fmt/format.h>

#include <algorithm>

#include "cli/flowdiff/commands.h"
#include "cli/flowdiff/report.h"
#include "cli/shared/console.h"
#include "cli/shared/reports.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/self_test.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

using compare::MissedFault;
using compare::SelfTest;

/// "up to 1 %" of sizes that are numbers, as smaller ones pass, too; "to float16"; "any".
std::string sizes_text(const MissedFault& fault) {
  if (fault.sizes.empty()) return "any";
  const bool numbers = fault.sizes.front().find('%') != std::string::npos;
  return numbers ? "up to " + fault.sizes.front() : join(fault.sizes, ", ");
}

/// "66 of 80 faults found"
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

/// A case an array. `strict`: it fails where a fault passes.
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

/// A summary and a table of at most 50 faults that pass.
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

void check_options(const CompareOptions& options) {
  if (!options.out.empty())
    throw RequestError(fmt::format("--self-test takes no OUT: {}", options.out),
                       "name only GOLDEN; its own arrays are compared with faults in them");
  check_diff_reports(options);
}

void print_result(const compare::SelfTest& test) {
  Table table;
  if (!test.missed.empty()) table.row({"array", "fault", "passes"});
  for (const compare::MissedFault& missed : test.missed)
    table.row({missed.array, missed.fault, sizes_text(missed)});
  print(table.str());
  for (const std::string& skipped : test.skipped) print(fmt::format("not tested: {}\n", skipped));
  print(self_test_summary(test) + "\n");
}

}  // namespace

int run_self_test(const CompareOptions& options) {
  check_options(options);
  const compare::Side golden = compare::list_side(options.golden);
  std::vector<std::string> names;
  for (const auto& [name, path] : golden.arrays) names.push_back(name);
  const FolderTolerances folder(golden);
  const compare::ToleranceRules rules = rules_of(options, folder.rules());
  if (!folder.check(names)) return kRequestWrong;
  check_globs(options, names);
  const compare::SelfTest test = compare::test_tolerances(golden, rules, options.ignored);
  if (test.injected == 0)
    throw RequestError(fmt::format("{} has no array to put a fault into", options.golden),
                       "name a run or a directory with arrays of two elements or more");
  const bool to_output =
      write_diff_reports(options, {[&] { return self_test_json(options.golden, test); },
                                   [&] { return self_test_junit(test, options.strict); },
                                   [&] { return self_test_markdown(test); }});
  if (!to_output) print_result(test);
  return options.strict && !test.missed.empty() ? kCheckFailed : kDone;
}

}  // namespace flow::cli
