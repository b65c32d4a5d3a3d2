// `flowdiff --self-test GOLDEN`: would the tolerances notice?
#include "cli/diff_self_test.h"

#include <fmt/format.h>

#include "cli/console.h"
#include "cli/folder_tolerances.h"
#include "cli/table.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/text.h"
#include "runtime/compare/self_test.h"

namespace flow::cli {
namespace {

/// "up to 1 %" of sizes that are numbers: smaller ones pass, too.
std::string sizes_text(const std::vector<std::string>& sizes) {
  if (sizes.empty()) return "any";
  const bool numbers = sizes.front().find('%') != std::string::npos;
  return numbers ? "up to " + sizes.front() : join(sizes, ", ");
}

void check_options(const CompareOptions& options) {
  if (!options.out.empty())
    throw RequestError(fmt::format("--self-test takes no OUT: {}", options.out),
                       "name only GOLDEN; its own arrays are compared with faults in them");
  if (options.json || options.junit || options.markdown)
    throw RequestError("--self-test writes no report", "leave out --json, --junit and --md");
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
  Table table;
  if (!test.missed.empty()) table.row({"array", "fault", "passes"});
  for (const compare::MissedFault& missed : test.missed)
    table.row({missed.array, missed.fault, sizes_text(missed.sizes)});
  print(table.str());
  for (const std::string& skipped : test.skipped) print(fmt::format("not tested: {}\n", skipped));
  print(fmt::format("{} of {} found\n", test.found,
                    counted(static_cast<uint64_t>(test.injected), "fault")));
  return options.strict && !test.missed.empty() ? kCheckFailed : kDone;
}

}  // namespace flow::cli
