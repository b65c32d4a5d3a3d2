// Prints, for each device of the folder given, which engine each attention step of a job gets:
// device | step's op | engine, or why there is none | bytes of workspace | bytes of T x T numbers
// The same for such steps with lengths, and for those with a bias of each head.
#include <fmt/format.h>

#include <set>

#include "compiler/compile.h"
#include "ops/attention/cuda_library.h"
#include "ops/core/known.h"
#include "runtime/base/file.h"
#include "runtime/cuda/libraries/cudnn.h"
#include "tests/device/convolution_specs.h"

namespace {

using namespace flow;

plan::Job compiled(const char* file) {
  CompileRequest request;
  request.file = file;
  request.job = "train";
  request.sets = {"vars.precision=mixed_bfloat16"};
  return compile_text(request, read_text(request.file)).plan.value().jobs.front();
}

using NamedSpecs = std::vector<std::pair<std::string, cuda::AttentionSpec>>;

/// The specs of the job's attention steps, each once: layers have equal ones.
NamedSpecs specs_of(const plan::Job& job) {
  NamedSpecs specs;
  std::set<std::string> seen;
  for (const plan::Step& step : job.steps) {
    if (step.op != ops::kAttention && step.op != ops::kAttentionGrad) continue;
    std::vector<cuda::AttentionOperand> operands;
    for (const plan::TensorId id : step.inputs) operands.push_back({job[id].dtype, job[id].shape});
    if (seen.insert(std::string(step.op.name()) + operands[0].shape.str()).second)
      specs.emplace_back(step.op.name(),
                         cuda::attention_spec(step, operands, step.outputs.size() > 1,
                                              DType::kBFloat16, cuda::math_mode_of(job))
                             .value());
  }
  return specs;
}

/// The same with lengths, and with a bias.
void add_hiding(NamedSpecs& specs) {
  for (const auto& [op, spec] : NamedSpecs(specs)) {
    specs.emplace_back(op + " with lengths", spec);
    specs.back().second.lengths = true;
    specs.emplace_back(op + " with a bias", spec);
    specs.back().second.bias = Shape{1, spec.query[1], spec.query[2], spec.key[2]};
  }
}

}  // namespace

int main(int, char** arguments) {
  NamedSpecs specs = specs_of(compiled(arguments[2]));
  add_hiding(specs);
  for (const auto& device : test::read_descriptions(arguments[1])) {
    cuda::Cudnn cudnn(device.json);
    for (auto [op, spec] : specs) {
      spec.most_workspace = device.memory / 4;
      const auto kernel = cudnn.find(spec);
      fmt::print("{} | {} | {} | {} | {}\n", device.name, op,
                 kernel ? kernel->name : kernel.error().what(), kernel ? kernel->workspace : 0,
                 spec.query.elements(0, 3) * spec.key[2] * 2);
    }
  }
}
