// flowdiff: compares the .npy files of two runs, folders or files, and keeps golden ones.
#include <CLI/CLI.hpp>
#include <functional>

#include "cli/flowdiff/commands.h"
#include "cli/shared/console.h"
#include "cli/shared/process.h"

namespace flow::cli {
namespace {

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

/// Runs a command that runs jobs, so that a signal leaves no temporary directory.
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
  UpdateOptions update;
  CalibrateOptions calibrate;
  configure(app, "flowdiff");
  declare_compare(app, compare);
  CLI::App* const updating = declare_update(app, update);
  CLI::App* const calibrating = declare_calibrate(app, calibrate);
  for (CLI::App* command : {updating, calibrating}) command->group("Commands");
  // The parser takes the name of a command for an argument that is required.
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
