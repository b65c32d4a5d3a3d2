// A model of ONNX as a job file and the values of its variables.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "runtime/base/array.h"

namespace flow::onnx {

struct ImportRequest {
  std::string source;                         // the model's file, for messages
  std::string job_file, weights;              // where the job goes, and what it shall load
  std::map<std::string, int64_t> dimensions;  // sizes of symbolic dimensions
};

struct ImportedModel {
  std::string job_file;                    // text
  std::map<std::string, Array> variables;  // by name; float32 or float64
  size_t nodes = 0;
};

/// Untrusted bytes. RequestError where they are no model or one that cannot be a job: with all
/// operators that flow does not have, and their nodes.
ImportedModel import_model(std::span<const std::byte> bytes, const ImportRequest& request);

}  // namespace flow::onnx
