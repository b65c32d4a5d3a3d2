// What flowrun's options ask of the compiler and of a run.
#include "cli/flowrun/request.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace flow::cli {

CompileRequest compile_request(const RunOptions& options, bool gpu) {
  CompileRequest request;
  request.file = options.file;
  request.sets = options.sets;
  request.watches = options.watches;
  request.watch_diffs = options.watch_diffs;
  request.watch_scopes = options.watch_scopes;
  if (!options.job.empty()) request.job = options.job;
  if (gpu) request.target.device = plan::DeviceKind::kGpu;
  request.target.forced = options.device != "auto";
  return request;
}

std::vector<std::pair<std::string, std::string>> inputs_of(const RunOptions& options) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const std::string& input : options.inputs) {
    const size_t equals = input.find('=');
    if (equals == std::string::npos)
      throw RequestError(fmt::format("--input `{}` has no `=`; expected NAME=SPEC", input),
                         "write NAME=@FILE.npy or NAME=random_uniform:-1:1");
    inputs.emplace_back(input.substr(0, equals), input.substr(equals + 1));
  }
  return inputs;
}

}  // namespace flow::cli
