// Job files: any text compiles to a plan or to messages, without a crash or a defect of ours.
#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/compile.h"
#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flow::CompileRequest request;
  request.file = "job.yaml";
  const flow::CompileResult result =
      flow::compile_text(request, std::string(reinterpret_cast<const char*>(data), size));
  FLOW_CHECK(result.plan.has_value() == (result.errors == 0));
  FLOW_CHECK(result.errors == 0 || !result.messages.empty());
  return 0;
}
