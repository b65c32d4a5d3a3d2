// `flowc export` to ONNX and `flowc import`.
#pragma once

#include "cli/flowc/options.h"

namespace flow::cli {

/// Is the output of `export` a model of ONNX?
bool is_onnx(const FlowcOptions& options);

/// Writes a predict job as a model of ONNX. Returns the exit status.
int export_onnx(const FlowcOptions& options);

/// Writes a model of ONNX as a job file, with its weights beside it. Returns the exit status.
int import_onnx(const FlowcOptions& options);

}  // namespace flow::cli
