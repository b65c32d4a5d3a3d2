// `flowdiff update GOLDEN OUT`: accepts the arrays of a run as the new reference.
#include "cli/flowdiff/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/shared/console.h"
#include "flow_version.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/update.h"

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
  std::vector<std::string> parts;
  const auto add = [&parts](size_t count, const char* what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  add(report.added.size(), "added");
  add(report.changed.size(), "changed");
  add(report.removed.size(), "removed");
  add(report.unchanged, "unchanged");
  add(report.kept.size(), "kept that OUT lacks");
  const size_t all = report.added.size() + report.changed.size() + report.removed.size() +
                     report.unchanged + report.kept.size();
  return fmt::format("{}: {}", counted(all, "array"), join(parts, ", "));
}

}  // namespace

CLI::App* declare_update(CLI::App& app, UpdateOptions& options) {
  CLI::App* command = app.add_subcommand("update", "Accept OUT as the new GOLDEN");
  command->add_option("GOLDEN", options.golden, "directory or run to replace; it may be absent")
      ->required()
      ->type_name("");
  command->add_option("OUT", options.out, "directory or run with the new arrays")
      ->required()
      ->type_name("");
  command->add_option("--reason", options.reason, "why the arrays change, for golden.json")
      ->required()
      ->type_name("TEXT");
  command->add_flag("--prune", options.prune, "remove arrays that OUT lacks");
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

int run_update(const UpdateOptions& options) {
  const compare::UpdateReport report = compare::update_golden({.golden = options.golden,
                                                               .out = options.out,
                                                               .reason = options.reason,
                                                               .version = FLOW_VERSION,
                                                               .prune = options.prune});
  list("added", report.added);
  list("changed", report.changed);
  list("removed", report.removed);
  list("kept", report.kept);
  print(summary(report) + "\n");
  if (!report.kept.empty())
    print_to_stderr("flowdiff: to remove the arrays that OUT lacks, add --prune\n");
  return kDone;
}

}  // namespace flow::cli
