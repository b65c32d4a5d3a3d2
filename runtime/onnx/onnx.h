// Exports a predict job as a model of ONNX, and imports a model of ONNX as a job file with the
// values of its variables.
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
  int64_t batch = 0;          // rows that the model accepts; 0: any number
  std::string fixed_by = {};  // step that requires this number of rows
};

/// A function that returns the value of a variable.
using ReadVariable = std::function<Array(const plan::Tensor&)>;

/// Exports a job. The inputs of the model are those of the job, and its outputs are what the job
/// returns, or what its hooks watch if it returns nothing. Throws RequestError if the job trains,
/// has shards or mixed precision, or delivers nothing. Also throws it for ops that ONNX cannot
/// express, and lists all of them.
ExportedModel export_job(const plan::Job& job, const ReadVariable& read);

struct ImportRequest {
  std::string source;  // path of the model, for messages
  // The paths of the job file and of the weights that it loads.
  std::string job_file, weights;
  std::map<std::string, int64_t> dimensions;  // sizes of symbolic dimensions
};

struct ImportedModel {
  std::string job_file;                    // text of the job file
  std::map<std::string, Array> variables;  // indexed by name; float32 or float64
  size_t nodes = 0;
};

/// Imports a model from untrusted bytes. Throws RequestError if they are not a model, or if the
/// model cannot become a job; the message lists all operators that flow does not support, and their
/// nodes.
ImportedModel import_model(std::span<const std::byte> bytes, const ImportRequest& request);

}  // namespace flow::onnx
