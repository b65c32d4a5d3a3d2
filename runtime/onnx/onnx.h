// A predict job as a model of ONNX, and a model of ONNX as a job file with the values of its
// variables.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "runtime/base/array.h"
#include "runtime/plan/model/plan.h"

namespace flow::onnx {

struct ExportedModel {
  std::string bytes;
  size_t nodes = 0, initializers = 0;
  int64_t batch = 0;          // rows that the model takes; 0: any number
  std::string fixed_by = {};  // the step for which it takes so many
};

/// The value of a variable.
using ReadVariable = std::function<Array(const plan::Tensor&)>;

/// Its inputs are those of the job, its outputs what the job returns, or without a return what its
/// hooks watch. RequestError where the job trains, has shards or mixed precision, or delivers
/// nothing; for ops that ONNX cannot express, with all of them.
ExportedModel export_job(const plan::Job& job, const ReadVariable& read);

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
