// The tolerances.yaml of a golden folder.
#include "cli/flowdiff/folder_tolerances.h"

#include "cli/shared/console.h"
#include "cli/shared/report_files.h"
#include "compiler/tolerances/tolerances.h"

namespace flow::cli {

FolderTolerances::FolderTolerances(const compare::Side& golden) : golden_(golden) {
  const fs::path path = golden.path / kTolerancesFile;
  std::error_code unknown;
  if (golden.kind != compare::Kind::kFile && fs::exists(fs::symlink_status(path, unknown)))
    file_ = std::make_unique<tolerances::TolerancesFile>(path);
}

FolderTolerances::~FolderTolerances() = default;

std::vector<compare::ToleranceRule> FolderTolerances::rules() const {
  std::vector<compare::ToleranceRule> rules;
  if (!file_) return rules;
  for (const tolerances::Entry& entry : file_->entries()) {
    compare::ToleranceRule rule{.glob = entry.glob.text,
                                .tolerance = {entry.relative, entry.absolute},
                                .spread = entry.spread,
                                .where = file_->where(entry)};
    for (const auto& steps : entry.steps)
      rule.steps.push_back({steps.range.first, steps.range.end, {steps.relative, steps.absolute}});
    if (entry.last_step) rule.last_step = *entry.last_step;
    rules.push_back(std::move(rule));
  }
  return rules;
}

bool FolderTolerances::check(const std::vector<std::string>& names) const {
  if (!file_) return true;
  if (!file_->diags().has_errors()) {
    file_->check_globs(names);
    file_->check_steps(
        names, [this](const std::string& name) { return compare::steps_of_file(golden_, name); });
  }
  const Diags& diags = file_->diags();
  print_messages(file_->name(), diags.render(message_layout()), diags.distinct_errors());
  return !diags.has_errors();
}

}  // namespace flow::cli
