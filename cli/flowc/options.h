// The parsed command line of flowc, the flags of its subcommands, and what several of them do with
// it.
#pragma once

#include <string>
#include <vector>

#include "cli/shared/report_files.h"
#include "compiler/compile.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace CLI {
class App;
}

namespace flow::cli {

/// What completions of shells ask for: names that depend on a file, or that are a table's.
struct CompletionRequest {
  std::string kind;                // "jobs", "paths", "ops", "codes", "topics", ...
  std::string word;                // "paths": what has been typed of it
  std::vector<std::string> files;  // "jobs", "paths": job files or plans
};

/// The options of all subcommands.
struct FlowcOptions {
  std::vector<std::string> files;
  std::string file, output, device, format = "table", code, op, other, start;
  std::string job, dump_after, schema = "job", topic;
  std::vector<std::string> weights;     // of `names`
  std::string checkpoint;               // of `export`
  std::vector<std::string> load, only;  // of `export`
  std::vector<std::string> dimensions;  // of `import`
  CompletionRequest completion;
  std::vector<std::string> sets, command_names, diffs;
  bool force = false;                                                 // of `report`
  bool commands = false, memory = false, steps = false, all = false;  // of `show`
  int ranks = 0;                                                      // of `show`
  bool gradients = false, hooks = false, values = false;
  bool full = false, minimal = false;
  bool ema = false, json = false;  // of `names` and `export`
};

/// What the options say of compiling `options.file`.
CompileRequest request_of(const FlowcOptions& options);

/// Writes where `-o` says (`-` is standard output). RequestError as from check_output, and where
/// that is one of the files that the text was made from.
void write_output(const FlowcOptions& options, const std::string& text, Output kind,
                  const std::vector<std::string>& sources = {});

/// RequestError where the file exists, or its directory does not.
void check_new_file(const fs::path& path);

/// Writes a new file, all or nothing, and returns when it is on the disk.
void write_new_file(const fs::path& path, std::string_view bytes);

/// The error for a name that is not among `names`; `otherwise`: the hint where none is like it.
RequestError unknown_name(const std::string& what, const std::string& name,
                          const std::vector<std::string>& names, const std::string& otherwise);

/// Each function adds the flags of one subcommand, which fill `options`.
void declare_check(CLI::App& app, FlowcOptions& options);
void declare_build(CLI::App& app, FlowcOptions& options);
void declare_show(CLI::App& app, FlowcOptions& options);
void declare_ops(CLI::App& app, FlowcOptions& options);
void declare_diff(CLI::App& app, FlowcOptions& options);
void declare_names(CLI::App& app, FlowcOptions& options);
void declare_export(CLI::App& app, FlowcOptions& options);
void declare_import(CLI::App& app, FlowcOptions& options);
void declare_init(CLI::App& app, FlowcOptions& options);
void declare_config(CLI::App& app, FlowcOptions& options);
void declare_report(CLI::App& app, FlowcOptions& options);
void declare_schema(CLI::App& app, FlowcOptions& options);
void declare_explain(CLI::App& app, FlowcOptions& options);
void declare_help(CLI::App& app, FlowcOptions& options);
void declare_complete(CLI::App& app, FlowcOptions& options);

}  // namespace flow::cli
