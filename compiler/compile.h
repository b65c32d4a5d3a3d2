// The compiler's entry points: job files and overrides in, a plan and diagnostics out, and what a
// shell completes from a job file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"
#include "compiler/source/source.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/plan.h"

namespace flow {

/// How a job file is written: with values for variables, and with every default or with none.
enum class Writing { kResolved, kFull, kMinimal };

struct CompileRequest {
  std::string file;                  // path of the job file, as the user wrote it
  std::vector<std::string> sets;     // --set texts: "vars.lr=0.02", "+jobs.train...", "~..."
  std::vector<std::string> watches;  // --watch NAME[:every]
  std::vector<std::string> watch_diffs, watch_scopes;
  std::optional<std::string> job;  // compile only this job
  Target target;
  std::string dump_after;               // a pass's name: its graph is appended to `dump`
  std::optional<Writing> writing = {};  // wanted as `job_file`
};

struct CompileResult {
  std::string messages;                   // rendered errors and warnings; can be empty
  std::vector<OrderedJson> objects = {};  // the same, each as to_json has it, where asked for
  size_t errors = 0;
  std::optional<plan::Plan> plan;                            // when there were no errors
  std::map<std::string, std::vector<WrittenEntry>> entries;  // by job of the plan
  std::string dump;
  std::string job_file;  // a job file of the same plan, without includes; empty after errors
  std::vector<std::string> sources;  // the job file, what it includes, flags
};

/// Compiles a job file's text, which `request.file` names. Reads what it includes; opens no data.
/// Everything that is wrong is a diagnostic.
CompileResult compile_text(const CompileRequest& request, std::string text,
                           const Layout& layout = {});

/// The jobs of a file, in its order. Reads what it includes. The file may have errors: it is being
/// written.
std::vector<std::string> jobs_in(const std::string& file, std::string text);

/// What a path of `--set` that begins with `word` may go on with, to the next dot: keys and list
/// positions of the file, and keys of the language that the file leaves out. Each ends with `.`
/// where the path goes on, or else with `=`.
std::vector<std::string> set_paths(const std::string& file, std::string text,
                                   std::string_view word);

}  // namespace flow
