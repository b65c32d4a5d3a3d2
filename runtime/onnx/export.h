// A predict job as a model of ONNX.
#pragma once

#include <functional>
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

}  // namespace flow::onnx
