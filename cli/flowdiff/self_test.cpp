// `flowdiff --self-test GOLDEN`: would the tolerances notice?
#include "cli/flowdiff/self_test.h"

#include <fmt/format.h>

#include "cli/flowdiff/folder_tolerances.h"
#include "cli/flowdiff/self_test_report.h"
#include "cli/shared/console.h"
#include "cli/shared/table.h"
#include "runtime/base/error.h"
#include "runtime/base/exit_code.h"
#include "runtime/compare/self_test.h"

namespace flow::cli {
namespace {

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
