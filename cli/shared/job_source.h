// Loads what a command names as FILE|PLAN: a job file to compile, or a plan that was compiled
// earlier.
#pragma once

#include <optional>
#include <string>

#include "compiler/compile.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

struct LoadedPlan {
  plan::Plan plan;
  bool from_job_file = false;  // true if the job file was compiled now
  std::map<std::string, std::vector<WrittenEntry>> entries = {};  // by job, if compiled from a file
};

/// Returns the text of `request.file`. Throws RequestError if the file is a plan or does not exist;
/// the latter error suggests a similar name.
std::string read_job_file(const CompileRequest& request);

/// Compiles `request.file`. Messages go to standard error, followed by a line with the number of
/// errors; a dump goes to standard output. Returns nothing if there are errors. Throws the
/// RequestErrors of read_job_file.
std::optional<CompileResult> compile_aloud(const CompileRequest& request);

/// Returns the plan of `request.file`, which is compiled with messages, or read. Returns nothing
/// after compile errors. A relative root in a plan is relative to the folder of the plan. Also
/// throws RequestError if the request has overrides, which need a job file, and the file is a plan.
std::optional<LoadedPlan> load(const CompileRequest& request);

/// Returns the job of the given name. If there is none, throws RequestError that lists the jobs.
const plan::Job& find_job(const plan::Plan& plan, const std::string& name);

/// Returns the first job file of the current folder with a job of the given name, or an empty
/// string.
std::string file_with_job(const std::string& job);

/// Returns the names of the jobs, such as "`train`, `eval`".
std::string job_names(const plan::Plan& plan);

}  // namespace flow::cli
