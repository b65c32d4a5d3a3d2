// What a first run on a GPU should measure, from plans and from graphs that the fake driver
// captures. tests/device/PREDICTIONS.md has the text; FLOW_REBASE=1 in the environment rewrites it.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "compiler/compile.h"
#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/model/cost.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/source_files.h"

using namespace flow;

namespace {

using Sets = std::vector<std::string>;

struct Model {
  std::string name, file;
  Sets sets;       // of the prediction
  Sets small;      // of a job with as many steps that the CPU can run
  double rows;     // of a step: images or tokens
  std::string of;  // "images"
};

/// NVIDIA H100 Tensor Core GPU data sheet (SXM5): dense, without sparsity.
constexpr double kBytesPerSecond = 3.35e12;
constexpr double kFloat32 = 67e12, kTf32 = 494.7e12, kLowPrecision = 989.4e12;  // FLOP/s

const std::vector<Model>& models() {
  static const std::vector<Model> kModels = {
      {"MLP 784-512-10, batch 100", "mlp.yaml", {}, {"vars.batch=4"}, 100, "images"},
      {"LeNet, batch 100", "lenet.yaml", {}, {"vars.batch=4"}, 100, "images"},
      {"LeNet, batch 100, `tf32`",
       "lenet.yaml",
       {"+jobs.train.precision=tf32"},
       {"vars.batch=4"},
       100,
       "images"},
      {"ResNet-18 for 28 x 28, batch 100, `mixed_bfloat16`",
       "resnet18.yaml",
       {"+jobs.train.precision=mixed_bfloat16"},
       {"vars.batch=2", "vars.width=2"},
       100,
       "images"},
      {"ResNet-50, batch 256, `mixed_bfloat16`",
       "resnet50.yaml",
       {"vars.precision=mixed_bfloat16"},
       {"vars.batch=2", "vars.width=2", "vars.size=32", "vars.classes=5"},
       256,
       "images"},
      {"GPT-2 124M, 8 x 1,024 tokens, `mixed_bfloat16`",
       "gpt2.yaml",
       {"vars.precision=mixed_bfloat16"},
       {"vars.batch=2", "vars.width=24", "vars.context=8", "vars.vocabulary=50"},
       8192,
       "tokens"}};
  return kModels;
}

plan::Job compiled(const Model& model, const Sets& more) {
  CompileRequest request;
  request.file = test::source_path("jobs") / model.file;
  request.job = "train";
  request.sets = model.sets;
  request.sets.insert(request.sets.end(), more.begin(), more.end());
  const CompileResult result = compile_text(request, read_text(request.file));
  INFO(result.messages);
  REQUIRE(result.plan);
  return result.plan->jobs.front();
}

/// Of a call's graph.
struct Nodes {
  int64_t kernels = 0, libraries = 0, copies = 0;  // libraries: calls of cuBLASLt and cuDNN
};

Nodes count_nodes(const plan::Job& job) {
  test::FakeGpu gpu(test::FakeDevice{.watched = false});
  Nodes nodes;
  {
    exec::PrepareOptions options;
    const plan::Tensor* loss = nullptr;
    for (const plan::Tensor& tensor : job.tensors)
      if (tensor.name == "loss") loss = &tensor;
    REQUIRE(loss);
    options.deliverables = {plan::TensorId{static_cast<size_t>(loss - job.tensors.data())}};
    options.always = {1};
    const auto program = gpu.backend->prepare(job, options);
    for (const std::string& call : gpu.driver->calls()) {
      const std::string_view line = call;
      if (line.starts_with("captured launch naive_"))
        ++nodes.libraries;
      else if (line.starts_with("captured launch"))
        ++nodes.kernels;
      else if (line.starts_with("captured copy"))
        ++nodes.copies;
    }
  }
  CHECK(gpu.driver->problems().empty());
  return nodes;
}

struct Work {
  double flops = 0, bytes = 0;  // of a call
  double seconds = 0;           // of its steps, one after another, each at the roof
};

/// FLOP/s of a step's products.
double peak_of(const plan::Job& job, const plan::Step& step) {
  if (plan::product_flops(job, step) == 0) return kFloat32;
  if (is_low_precision(job[step.inputs[0]].dtype)) return kLowPrecision;
  return job.precision == "tf32" ? kTf32 : kFloat32;
}

Work work_of(const plan::Job& compiled) {
  const plan::Job moved = cuda::move_channels_last(cuda::lower_epilogues(compiled), {}, {});
  const plan::Job job = cuda::group_updates(cuda::fuse_residuals(moved, {})).job;
  const auto owners = exec::share_memory(job, [](plan::TensorId, plan::TensorId) { return true; });
  Work work;
  for (const plan::Step& step : job.steps) {
    if (step.probe || exec::is_view(step, owners)) continue;
    double flops = plan::flops(job, step);
    const double bytes = plan::traffic(job, step);
    for (const plan::EpilogueOp& fused : step.epilogue) flops += plan::flops(job, step, fused);
    work.flops += flops, work.bytes += bytes;
    work.seconds += std::max(flops / peak_of(job, step), bytes / kBytesPerSecond);
  }
  return work;
}

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} µs", seconds * 1e6)
                        : fmt::format("{:.2f} ms", seconds * 1e3);
}

std::string row_of(const Model& model) {
  const Nodes nodes = count_nodes(compiled(model, model.small));
  const Work work = work_of(compiled(model, {}));
  return fmt::format("| {} | {} + {} | {} | {:.4g} | {:.4g} | {} | {:.3g} | {:.3g} {} |\n",
                     model.name, nodes.kernels, nodes.libraries, nodes.copies, work.flops / 1e9,
                     work.bytes / 1e9, time_text(work.seconds), 1 / work.seconds,
                     model.rows / work.seconds, model.of);
}

constexpr const char* kIntroduction = R"(# What a first run on an H100 should measure

`flow_cuda_tests "predictions*"` computes these numbers from the plans of `jobs/`, and fails where this page is out of date.
`FLOW_REBASE=1` rewrites it. A run on a device confirms or refutes them: `tests/device/run.sh` measures each row and puts its profile into the logs.

| column | meaning |
| --- | --- |
| kernels | nodes of the graph of a step: kernels of flow, and calls of cuBLASLt and cuDNN, each of which is one or more kernels |
| copies | nodes that copy: inputs to the device, the loss to the host |
| GFLOP, GB | work of a step, as `flowc show` counts it: operands and results of each kernel, read and written once |
| time | no step can take less: each kernel needs its GFLOP at the peak or its GB at full bandwidth, whichever is longer |

The peaks are those of NVIDIA's data sheet of the H100 SXM5, without sparsity: 3.35 TB/s, 67 TFLOP/s in float32, 494.7 in TF32 and 989.4 in
16 bits. A step that takes twice this time is good, since libraries reach about two thirds of a peak. Small jobs are limited by their
nodes instead: 1 to 2 µs for each is to be expected.

| job | kernels | copies | GFLOP | GB | time | steps/s at most | rows/s at most |
| --- | --- | --- | --- | --- | --- | --- | --- |
)";

}  // namespace

TEST_CASE("predictions for a device are those of the plans", "[cuda]") {
  std::string text = kIntroduction;
  for (const Model& model : models()) text += row_of(model);
  const fs::path page = test::source_path("tests/device/PREDICTIONS.md");
  const char* rebase = std::getenv("FLOW_REBASE");
  if (rebase && std::string_view(rebase) == "1")
    write_text_atomically(page, text);
  else
    CHECK(text == read_text(page));
}
