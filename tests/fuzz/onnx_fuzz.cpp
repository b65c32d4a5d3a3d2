// Any bytes as a model of ONNX: a job file, which is compiled, or refused with a RequestError.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/compile.h"
#include "runtime/base/error.h"
#include "runtime/onnx/onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const flow::onnx::ImportedModel model = flow::onnx::import_model(
        std::as_bytes(std::span(data, size)),
        {.source = "fuzz", .job_file = "fuzz.yaml", .weights = "fuzz.npz", .dimensions = {}});
    flow::CompileRequest request;
    request.file = "fuzz.yaml";
    flow::compile_text(request, model.job_file);
  } catch (const flow::RequestError&) {
  }
  return 0;
}
