// Lists of names for shells.
#include "cli/flowc/complete.h"

#include "cli/flowc/help_topics.h"
#include "cli/flowc/templates.h"
#include "compiler/complete.h"
#include "compiler/diag/diag.h"
#include "compiler/passes/pipeline.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/plan/serialize.h"

namespace flow::cli {
namespace {

using Names = std::vector<std::string>;

/// Of a job file, or of a plan, which is JSON with jobs in a list.
Names jobs_of(const std::string& file) {
  std::string text = read_text(file);
  if (!text.starts_with('{')) return jobs_in(file, std::move(text));
  Names names;
  for (const plan::Job& job : plan::from_json(text, file).jobs) names.push_back(job.name);
  return names;
}

template <typename Table>
Names names_in(const Table& table, auto name) {
  Names names;
  for (const auto& row : table) names.emplace_back(name(row));
  return names;
}

Names names_of(const CompletionRequest& request) {
  if (request.kind == "ops")
    return names_in(ops::written_specs(), [](const ops::OpSpec* op) { return op->name; });
  if (request.kind == "codes")
    return names_in(all_diagnoses(), [](const DiagnosisInfo& info) { return info.code; });
  if (request.kind == "templates")
    return names_in(templates(), [](const Template& one) { return one.name; });
  if (request.kind == "passes")
    return names_in(passes::pipeline(), [](const passes::Pass& pass) { return pass.name; });
  if (request.kind == "topics") return topic_names();
  Names names;
  for (const std::string& file : request.files) try {
      Names more;
      if (request.kind == "jobs") more = jobs_of(file);
      if (request.kind == "paths") more = set_paths(file, read_text(file), request.word);
      names.insert(names.end(), more.begin(), more.end());
    } catch (const RunError&) {  // no file, or no plan
    }
  return names;
}

}  // namespace

std::string completions_of(const CompletionRequest& request) {
  std::string text;
  for (const std::string& name : names_of(request)) text += name + '\n';
  return text;
}

}  // namespace flow::cli
