// The declarations of flowc: its command line, the texts that the build puts into it, the functions
// that its subcommands share, and the subcommands that have a file of their own. Functions that
// return an int return the exit status.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shared/command_line.h"
#include "cli/shared/reports.h"
#include "compiler/compile.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace flow::cli {

/// A job file of jobs/, from which `flowc init` creates new job files.
struct Template {
  std::string_view name;  // "lenet"
  std::string_view text;
};

/// Returns the templates, sorted by name.
std::span<const Template> templates();

/// Returns the data folders of jobs/, such as "data/mnist".
std::span<const std::string_view> data_folders();

struct Guide {
  std::string_view name, text;  // Markdown
};
/// Returns docs/tutorial.md and docs/guide/*.md with their contents at compile time.
std::span<const Guide> guides();

/// The request of a shell completion for names that depend on a file or come from a table.
struct CompletionRequest {
  std::string kind;                // "jobs", "paths", "ops", "codes", "topics", ...
  std::string word;                // for "paths": the part that the user has typed
  std::vector<std::string> files;  // for "jobs" and "paths": job files or plans
};

/// The options of all subcommands.
struct FlowcOptions {
  std::vector<std::string> files;
  std::string file, output, device, format = "table", code, op, other, start;
  std::string job, dump_after, schema = "job", topic;
  std::vector<std::string> weights;     // for `names`
  std::string checkpoint;               // for `export`
  std::vector<std::string> load, only;  // for `export`
  std::vector<std::string> dimensions;  // for `import`
  std::string dataset;                  // for `data`
  int64_t samples = 16;                 // for `data`
  uint32_t epoch = 0;                   // for `data`
  std::string from, target;             // for `init`
  CompletionRequest completion;
  std::vector<std::string> sets, command_names, diffs;
  bool force = false;                                                 // for `report`
  bool commands = false, memory = false, steps = false, all = false;  // for `show`
  int ranks = 0;                                                      // for `show`
  bool gradients = false, hooks = false, values = false;
  bool full = false, minimal = false;
  bool ema = false, json = false;  // for `names` and `export`
};

/// Returns the request to compile `options.file` according to the options.
CompileRequest request_of(const FlowcOptions& options);

/// Writes the text to the file that `-o` names, or to standard output for `-`. Throws the
/// RequestErrors of check_output, also if the output is one of the files that the text was made
/// from.
void write_output(const FlowcOptions& options, const std::string& text, Output kind,
                  const std::vector<std::string>& sources = {});

/// Throws RequestError if the file exists or its directory does not.
void check_new_file(const fs::path& path);

/// Writes a new file completely or not at all, and returns after the file is on the disk.
void write_new_file(const fs::path& path, std::string_view bytes);

/// Returns the error for a name that is not in `names`. `otherwise` is the hint if no name is
/// similar.
RequestError unknown_name(const std::string& what, const std::string& name,
                          const std::vector<std::string>& names, const std::string& otherwise);

/// Each of these functions adds the flags of one subcommand. The flags fill `options`.
void declare_check(Flags flags, FlowcOptions& options);
void declare_build(Flags flags, FlowcOptions& options);
void declare_show(Flags flags, FlowcOptions& options);
void declare_ops(Flags flags, FlowcOptions& options);
void declare_diff(Flags flags, FlowcOptions& options);
void declare_names(Flags flags, FlowcOptions& options);
void declare_export(Flags flags, FlowcOptions& options);
void declare_import(Flags flags, FlowcOptions& options);
void declare_data(Flags flags, FlowcOptions& options);
void declare_init(Flags flags, FlowcOptions& options);
void declare_config(Flags flags, FlowcOptions& options);
void declare_report(Flags flags, FlowcOptions& options);
void declare_schema(Flags flags, FlowcOptions& options);
void declare_explain(Flags flags, FlowcOptions& options);
void declare_help(Flags flags, FlowcOptions& options);
void declare_complete(Flags flags, FlowcOptions& options);

/// Runs `flowc show`, which prints tables, the plan or a picture. Throws RequestError if options
/// exclude each other.
int show_file(const FlowcOptions& options);

/// Runs `flowc diff`, which compares two job files or plans. Returns kCheckFailed if the plans
/// differ.
int diff_files(const FlowcOptions& options);

/// Runs `flowc names`, which prints the variable for each array of a file and proposes rules for
/// the arrays without a variable. Returns kCheckFailed if a run could not load the file.
int list_names(const FlowcOptions& options);

/// Runs `flowc export`, which writes the variables of a checkpoint as .safetensors or .npz.
int export_weights(const FlowcOptions& options);

/// Returns true if the output of `export` is an ONNX model.
bool is_onnx(const FlowcOptions& options);

/// Runs `flowc export` for a predict job and writes an ONNX model.
int export_onnx(const FlowcOptions& options);

/// Runs `flowc import`, which writes an ONNX model as a job file with its weights next to it.
int import_onnx(const FlowcOptions& options);

/// Runs `flowc data`, which reads the datasets of a job file, prints what they contain, and writes
/// samples. Returns kCheckFailed if there are bad rows.
int summarize_data(const FlowcOptions& options);

/// Runs `flowc init`, which writes a job file and its schema, or lists the templates if the options
/// name none. Throws RequestError if the file exists, or if the template or the folder does not
/// exist.
int init_job_file(const FlowcOptions& options);

/// Writes a job file for the CSV file or the folder of images that `--from` names. Throws
/// RequestError if the data has no column to predict or too few rows, and RunError if it cannot be
/// read.
int init_from_data(const FlowcOptions& options);

/// Writes a new job file and, if it is missing, its schema. Prints the next steps. `with` names
/// other files that were written.
void write_first_job_file(const fs::path& path, const std::string& text,
                          const std::string& with = {});

/// Runs `flowc report`, which reads the run directories `options.files` and the files that `--diff`
/// names, and writes one HTML file to the path that `-o` names.
int write_report(const FlowcOptions& options);

/// Returns the topics that `flowc help TOPIC` accepts.
std::vector<std::string> topic_names();

/// Returns the list of topics that `flowc help` prints, one per line.
std::string list_topics(size_t columns);

/// Returns the text of a topic for a terminal, as `flowc help TOPIC` prints it, or an empty string
/// if there is no such topic.
std::string topic_text(std::string_view name, size_t columns, bool color);

/// Returns the names that `flowc complete` prints, one per line. Returns an empty string if a file
/// cannot be read or the kind is unknown, because an error message would disturb the user's typing.
std::string completions_of(const CompletionRequest& request);

}  // namespace flow::cli
