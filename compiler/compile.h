// Declares the entry points of the compiler. They turn job files and overrides into a plan and
// diagnostics, and list shell completions for a job file.
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

/// How to write a job file: with the values of variables inserted, and also with every default or
/// with no default.
enum class Writing { kResolved, kFull, kMinimal };

struct CompileRequest {
  std::string file;                  // the path as the user wrote it
  std::vector<std::string> sets;     // texts of --set, such as "vars.lr=0.02", "~..."
  std::vector<std::string> watches;  // texts of --watch: NAME[:every]
  std::vector<std::string> watch_diffs, watch_scopes;
  std::optional<std::string> job;  // compiles only this job
  Target target;
  // The name of a pass after which the graph is appended to `dump`.
  std::string dump_after;
  std::optional<Writing> writing = {};  // the form of `job_file`, if requested
};

struct CompileResult {
  std::string messages;  // rendered errors and warnings; can be empty
  // The same diagnostics as made by to_json, if requested.
  std::vector<OrderedJson> objects = {};
  size_t errors = 0;
  std::optional<plan::Plan> plan;  // absent after errors
  // All datasets of the file with all columns, also those that no job reads. Empty after errors.
  std::vector<plan::Dataset> datasets;
  std::map<std::string, std::vector<WrittenEntry>> entries;  // for each job of the plan
  std::string dump;
  // A job file with the same plan, without includes. Empty after errors.
  std::string job_file;
  // The sources that were read: the job file, the files that it includes, and flags.
  std::vector<std::string> sources;
};

/// Compiles the text of a job file named `request.file`. Reads the files that it includes, but
/// opens no data files. Every error becomes a diagnostic.
CompileResult compile_text(const CompileRequest& request, std::string text,
                           const Layout& layout = {});

/// Returns the jobs of a file, in order. Reads the files that it includes. The file may contain
/// errors, because it may still be in the middle of an edit.
std::vector<std::string> jobs_in(const std::string& file, std::string text);

/// Returns the continuations of a `--set` path that begins with `word`, up to the next dot: keys
/// and list positions of the file, and keys of the language that the file omits. Each ends with `.`
/// if the path continues, and with `=` otherwise.
std::vector<std::string> set_paths(const std::string& file, std::string text,
                                   std::string_view word);

}  // namespace flow
