// What a command names as FILE|PLAN: a job file to compile, or a plan that was compiled before.
#pragma once

#include <optional>
#include <string>

#include "compiler/compile.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

struct LoadedPlan {
  plan::Plan plan;
  bool from_job_file = false;                                     // compiled now
  std::map<std::string, std::vector<WrittenEntry>> entries = {};  // by job, where it was compiled
};

/// The text of `request.file`. RequestError where it is a plan, or no such file is there, with the
/// name of the one that may have been meant.
std::string read_job_file(const CompileRequest& request);

/// Compiles `request.file`. Messages go to standard error, followed by a line that counts errors, a
/// dump to standard output; nothing where there are errors. RequestError as of read_job_file.
std::optional<CompileResult> compile_aloud(const CompileRequest& request);

/// The plan of `request.file`: compiled aloud, or read; nothing after compile errors. A relative
/// root in a plan is relative to the folder of the plan.
/// Throws RequestError, too, when the request's overrides need a job file and this is a plan.
std::optional<LoadedPlan> load(const CompileRequest& request);

/// The job of that name. RequestError that lists the jobs when there is none.
const plan::Job& find_job(const plan::Plan& plan, const std::string& name);

/// The first job file of the current folder that has a job of that name; "" where none has.
std::string file_with_job(const std::string& job);

/// "`train`, `eval`"
std::string job_names(const plan::Plan& plan);

}  // namespace flow::cli
