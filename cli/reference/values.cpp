// Values are known by what --help calls them.
#include "cli/reference/pages.h"

#include <algorithm>

namespace flow::cli {
namespace {

struct Rule {
  std::string_view command;  // empty: any
  std::string_view name;     // of an argument, or of an option's value
  std::string_view kind;
};
// The first that fits.
constexpr Rule kRules[] = {
    {"flowdiff", "GOLDEN", "files"},
    {"flowdiff", "OUT", "files"},
    {"update", "GOLDEN", "folders"},
    {"update", "OUT", "folders"},
    {"names", "WEIGHTS", "files"},
    {"export", "CKPT", "files"},
    {"ops", "NAME", "ops"},
    {"init", "NAME", "templates"},
    {"", "JOB", "jobs"},
    {"", "J", "jobs"},
    {"", "CODE", "codes"},
    {"", "TOPIC", "topics"},
    {"", "PASS", "passes"},
    {"", "PATH=YAML", "paths"},
    {"", "DIR", "folders"},
    {"", "TBDIR", "folders"},
    {"", "NAME=SPEC", "none"},
    {"", "NAME[:N]", "none"},
    {"", "NAME,...", "none"},
    {"", "KIND,...", "none"},
    {"", "GLOB", "none"},
    {"", "GLOB=R,A", "none"},
    {"", "TEXT", "none"},
    {"", "TOLERANCES", "files"},
    {"", "N", "none"},
    {"", "R", "none"},
    {"", "A", "none"},
};

}  // namespace

std::string_view completed_by(const CommandInfo& command, const OptionInfo& option) {
  const std::string& name = option.is_argument() ? option.names[0] : option.value;
  // The two job files that `flowc diff` compares are called A and B.
  if (option.is_argument() && command.name != "flowdiff" && name.size() == 1) return "job_files";
  const auto rule = std::ranges::find_if(kRules, [&](const Rule& one) {
    return (one.command.empty() || one.command == command.name) && one.name == name;
  });
  if (rule != std::end(kRules)) return rule->kind;
  return option.is_argument() ? "job_files" : "files";
}

}  // namespace flow::cli
