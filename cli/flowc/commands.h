// The subcommands of flowc that have a file of their own. Those that return an int return the exit
// status.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flowc/options.h"

namespace flow::cli {

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
