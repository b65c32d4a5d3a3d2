// flowc: its command line, texts that the build puts into it, what its subcommands share, and those
// that have a file of their own. Functions that return an int return the exit status.
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

/// The job files of jobs/, which `flowc init` starts new ones from.
struct Template {
  std::string_view name;  // "lenet"
  std::string_view text;
};

/// Sorted by name.
std::span<const Template> templates();

/// Folders of data that jobs/ has: "data/mnist".
std::span<const std::string_view> data_folders();

struct Guide {
  std::string_view name, text;  // Markdown
};
/// docs/tutorial.md and docs/guide/*.md, as they were when this was compiled.
std::span<const Guide> guides();

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
void declare_check(Flags flags, FlowcOptions& options);
void declare_build(Flags flags, FlowcOptions& options);
void declare_show(Flags flags, FlowcOptions& options);
void declare_ops(Flags flags, FlowcOptions& options);
void declare_diff(Flags flags, FlowcOptions& options);
void declare_names(Flags flags, FlowcOptions& options);
void declare_export(Flags flags, FlowcOptions& options);
void declare_import(Flags flags, FlowcOptions& options);
void declare_init(Flags flags, FlowcOptions& options);
void declare_config(Flags flags, FlowcOptions& options);
void declare_report(Flags flags, FlowcOptions& options);
void declare_schema(Flags flags, FlowcOptions& options);
void declare_explain(Flags flags, FlowcOptions& options);
void declare_help(Flags flags, FlowcOptions& options);
void declare_complete(Flags flags, FlowcOptions& options);

/// `flowc show`: prints tables, the plan or a picture. RequestError for options that exclude each
/// other.
int show_file(const FlowcOptions& options);

/// `flowc diff`: compares two job files or plans. kCheckFailed where the plans differ.
int diff_files(const FlowcOptions& options);

/// `flowc names`: prints which arrays of a file become which variables, and proposes rules for the
/// others. kCheckFailed where a run could not load the file.
int list_names(const FlowcOptions& options);

/// `flowc export`: writes the variables of a checkpoint as .safetensors or .npz.
int export_weights(const FlowcOptions& options);

/// Is the output of `export` a model of ONNX?
bool is_onnx(const FlowcOptions& options);

/// `flowc export` of a predict job as a model of ONNX.
int export_onnx(const FlowcOptions& options);

/// `flowc import`: writes a model of ONNX as a job file, with its weights next to it.
int import_onnx(const FlowcOptions& options);

/// `flowc init`: writes a job file and its schema, or lists the templates where none is named.
/// RequestError where there is such a file, or no such template or folder.
int init_job_file(const FlowcOptions& options);

/// `flowc report`: reads the run directories `options.files` and what `--diff` names, and writes
/// one HTML file where `-o` says.
int write_report(const FlowcOptions& options);

/// What `flowc help TOPIC` takes.
std::vector<std::string> topic_names();

/// `flowc help`: the list of topics, a line each.
std::string list_topics(size_t columns);

/// `flowc help TOPIC`: the text of a topic for a terminal; empty where there is no such topic.
std::string topic_text(std::string_view name, size_t columns, bool color);

/// `flowc complete`: a name a line. There is none where a file cannot be read or the kind is
/// unknown, since an error would disturb who is typing.
std::string completions_of(const CompletionRequest& request);

}  // namespace flow::cli
