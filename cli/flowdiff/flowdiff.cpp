// flowdiff compares the .npy files of two runs, folders or files, and maintains golden folders.
#include <fmt/format.h>

#include <functional>

#include "cli/flowdiff/commands.h"
#include "cli/shared/command_line.h"
#include "cli/shared/console.h"
#include "cli/shared/reports.h"
#include "flow_version.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/golden.h"

namespace flow::cli {
namespace {

void list(const char* what, const std::vector<std::string>& names) {
  constexpr size_t kMostListed = 20;
  for (size_t i = 0; i < std::min(kMostListed, names.size()); ++i)
    print(fmt::format("{:<8} {}\n", what, escaped(names[i])));
  if (names.size() > kMostListed)
    print(fmt::format("{:<8} {} more\n", what, names.size() - kMostListed));
}

std::string summary(const compare::UpdateReport& report) {
  const size_t all = report.added.size() + report.changed.size() + report.removed.size() +
                     report.unchanged + report.kept.size();
  return fmt::format("{}: {}", counted(all, "array"),
                     counts_text({{report.added.size(), "added"},
                                  {report.changed.size(), "changed"},
                                  {report.removed.size(), "removed"},
                                  {report.unchanged, "unchanged"},
                                  {report.kept.size(), "kept that OUT lacks"}}));
}

CLI::App* declare_update(CLI::App& app, compare::UpdateRequest& options) {
  CLI::App* command = app.add_subcommand("update", "Accept OUT as the new GOLDEN");
  Flags flags(*command);
  flags.argument("GOLDEN", options.golden, "directory or run to replace; it may be absent");
  flags.argument("OUT", options.out, "directory or run with the new arrays");
  flags.value("--reason", "TEXT", options.reason, "why the arrays change, for golden.json")
      ->required();
  flags.flag("--prune", options.prune, "remove arrays that OUT lacks");
  command->footer(
      "GOLDEN changes all at once: flowdiff builds a complete copy next to it and exchanges the\n"
      "two. If it is killed, GOLDEN is the old one or the new one. Other files in GOLDEN stay.\n"
      "\n"
      "golden.json records the reason, the date, the command, the device, versions and a\n"
      "checksum of each array. flowdiff reports arrays that were changed by hand.\n"
      "\n"
      "Example:\n"
      "  flowdiff update golden out --reason 'learning rate schedule fixed'");
  return command;
}

int run_update(const compare::UpdateRequest& request) {
  const compare::UpdateReport report = compare::update_golden(request);
  list("added", report.added);
  list("changed", report.changed);
  list("removed", report.removed);
  list("kept", report.kept);
  print(summary(report) + "\n");
  if (!report.kept.empty())
    print_to_stderr("flowdiff: to remove the arrays that OUT lacks, add --prune\n");
  return kDone;
}

constexpr const char* kFooter =
    "An element passes if |out - golden| <= A + R * |golden|. NaN equals NaN, and an infinity\n"
    "equals itself. In a GLOB, * matches within a directory and ** matches across directories.\n"
    "\n"
    "Default R and A: float32 1.3e-6 and 1e-5; float64 1e-7 and 1e-7; float16 1e-3 and 1e-5;\n"
    "integers and bools exact. `tolerances.yaml` in GOLDEN overrides them, --tol overrides both.\n"
    "\n"
    "A `mistrusted` array passes, but proves little. It has no elements; golden is constant, has "
    "NaN\n"
    "like out, or was changed by hand; or the tolerance is wider than its standard deviation.\n"
    "\n"
    "For runs, flowdiff compares `returns`, `watch`, `also` and the newest checkpoint. It also\n"
    "reports data files that differ, and which differing array of `returns` and `watch` was "
    "computed\n"
    "first. Directories can have .npz archives, too: weights.npz/dense/bias is an array of one.\n"
    "\n"
    "--first compares the fingerprints that flowrun --fingerprint keeps: bit for bit, or between\n"
    "devices, instruction sets and versions by distance. It runs flowrun --capture on both sides.\n"
    "\n"
    "Exit status:\n"
    "  0   equal within tolerance\n"
    "  1   different; with --strict, also mistrusted\n"
    "  2   invalid request\n"
    "  3   no differences found, but a file cannot be read\n"
    "  4   nothing compared\n"
    "  70  bug in flowdiff\n"
    "\n"
    "Examples:\n"
    "  flowdiff golden/returns out/returns\n"
    "  flowdiff golden out --ignore 'watch/**' --md \"$GITHUB_STEP_SUMMARY\" --md-append\n"
    "  flowdiff runs/lenet-train-001 runs/lenet-train-002 --tol 'checkpoint/**=1e-4,1e-6'\n"
    "  flowdiff --first runs/lenet-train-001 runs/lenet-train-002\n"
    "  flowdiff update golden out --reason 'learning rate schedule fixed'";

/// Runs a command that runs jobs. A signal stops it without leaving a temporary directory behind.
int stoppable(const std::function<int()>& command) {
  catch_stop_requests();
  try {
    return command();
  } catch (const Stopped&) {
    end_as_asked();
    throw;
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Compare the arrays of two runs, two directories or two .npy files.", "flowdiff"};
  CompareOptions compare;
  compare::UpdateRequest update{.version = FLOW_VERSION};
  CalibrateOptions calibrate;
  configure(app, "flowdiff");
  declare_compare(app, compare);
  CLI::App* const updating = declare_update(app, update);
  CLI::App* const calibrating = declare_calibrate(app, calibrate);
  for (CLI::App* command : {updating, calibrating}) command->group("Commands");
  // The parser would treat the name of a command as the required argument.
  for (const CLI::App* command : {updating, calibrating})
    if (argc > 1 && command->get_name() == argv[1]) app.get_option("GOLDEN")->required(false);
  app.footer(kFooter);
  if (const int status = parse(app, argc, argv); status >= 0) return status;
  if (updating->parsed()) return run_update(update);
  if (calibrating->parsed()) return stoppable([&] { return run_calibrate(calibrate); });
  if (compare.first) return stoppable([&] { return run_first(compare); });
  return compare.self_test ? run_self_test(compare) : run_compare(compare);
}

}  // namespace

}  // namespace flow::cli

int main(int argc, char** argv) {
  return flow::cli::guarded("flowdiff", [&] { return flow::cli::run(argc, argv); });
}
