// What a command names as FILE|PLAN: a job file to compile, or a plan that was compiled before.
#pragma once

#include <optional>
#include <string>

#include "compiler/compile.h"
#include "runtime/plan/plan.h"

namespace flow::cli {

/// Does this text look like a plan? Plans are JSON objects as `flowc build` writes them.
bool is_plan(const std::string& text);

struct LoadedPlan {
  plan::Plan plan;
  bool from_job_file = false;  // compiled now
};

/// RequestError where there is no such file, with the name of the one that may have been meant.
void require_file(const std::string& file);

/// The plan of `request.file`: compiled, or read as it is. Compile messages go to standard error,
/// followed by a line that counts errors; throws RequestError when the request's overrides need a
/// job file and this is a plan. Nothing after compile errors, which have been told.
std::optional<LoadedPlan> load(const CompileRequest& request);

/// The job of that name. RequestError that lists the jobs when there is none.
const plan::Job& find_job(const plan::Plan& plan, const std::string& name);

/// "`train`, `eval`"
std::string job_names(const plan::Plan& plan);

}  // namespace flow::cli
