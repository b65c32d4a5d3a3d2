// Attention by the library: what it is asked, and what happens where it refuses.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/core/known.h"
#include "runtime/base/error.h"
#include "runtime/cuda/program/backend.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/plan/model/lifetimes.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

namespace flow::test {
namespace {

using cuda::AttentionSpec;
using Pass = AttentionSpec::Pass;

/// Notes what it is asked, and lacks a pass, or all that needs more workspace than there may be.
class AskedLibraries : public cuda::NaiveLibraries {
 public:
  struct Traits {
    std::optional<Pass> lacks = {};
    size_t workspace = 0;
  };
  AskedLibraries(cuda::Driver& driver, Traits traits, std::vector<AttentionSpec>& asked)
      : NaiveLibraries(driver), traits_(traits), asked_(asked) {}
  using NaiveLibraries::find;
  Expected<cuda::AttentionKernel> find(const AttentionSpec& spec) override {
    asked_.push_back(spec);
    if (spec.pass == traits_.lacks) return RunError("no such engine");
    if (spec.most_workspace < traits_.workspace) return RunError("too little workspace");
    cuda::AttentionKernel kernel = NaiveLibraries::find(spec).value();
    kernel.workspace = traits_.workspace;
    return kernel;
  }

 private:
  Traits traits_;
  std::vector<AttentionSpec>& asked_;
};

/// Causal attention of 2 x 3 heads and its gradients. `out` is rounded for a product, and dy is a
/// result too.
struct AttentionJob {
  int64_t keys;
  JobBuilder b;
  plan::TensorId query = b.input("query", {2, 3, 5, 4}), key = b.input("key", {2, 3, keys, 4}),
                 value = b.input("value", {2, 3, keys, 2}), dz = b.input("dz", {2, 3, 5, 2}), out,
                 log_sums, rounded, dy;
  std::vector<plan::TensorId> gradients;

  explicit AttentionJob(int64_t keys_of_batch = 6) : keys(keys_of_batch) {
    const JobBuilder::Attributes attributes = {{"causal", true}, {"scale", 0.5}};
    out = b.step("scaled_dot_product_attention", "attended", {query, key, value}, attributes,
                 {2, 3, 5, 2});
    log_sums = b.second_result("attended.logsumexp", {2, 3, 5}, DType::kFloat32);
    rounded = b.step("cast", "rounded", {out}, {{"dtype", DType::kBFloat16}}, {2, 3, 5, 2},
                     DType::kBFloat16);
    b.step("cast", "widened", {rounded}, {{"dtype", DType::kFloat32}}, {2, 3, 5, 2});
    dy = b.step("scale", "dy", {dz}, {{"factor", 0.5}}, {2, 3, 5, 2});
    gradients = {b.step("scaled_dot_product_attention_grad", "grads",
                        {dy, query, key, value, out, log_sums}, attributes, {2, 3, 5, 4}),
                 b.second_result("dkey", {2, 3, keys, 4}, DType::kFloat32),
                 b.second_result("dvalue", {2, 3, keys, 2}, DType::kFloat32)};
  }

  /// Another operand of both steps.
  plan::TensorId add_operand(const std::string& name, const Shape& shape, DType dtype) {
    operands_.push_back(b.input(name, shape, dtype));
    return operands_.back();
  }

  /// The gradient of the bias, which comes first among the optional operands.
  void add_bias_gradient() {
    plan::Step grad = b.last_step();
    grad.inputs.insert(grad.inputs.end(), operands_.begin(), operands_.end());
    b.step("scaled_dot_product_attention_grad_bias", "dbias", grad.inputs, grad.attributes,
           {1, 3, 5, keys});
  }

  plan::Job build(const std::string& precision = "mixed_bfloat16") {
    plan::Job job = b.build();
    job.precision = precision;
    for (plan::Step& step : job.steps)
      if (step.op == ops::kAttention || step.op == ops::kAttentionGrad)
        step.inputs.insert(step.inputs.end(), operands_.begin(), operands_.end());
    plan::assign_lifetimes(job);
    return job;
  }

 private:
  std::vector<plan::TensorId> operands_;
};

struct LoweredAttention {
  plan::Job job;
  std::vector<AttentionSpec> asked;
};

LoweredAttention lower_attended(const plan::Job& job, AskedLibraries::Traits traits = {},
                                const std::vector<plan::TensorId>& visible = {}) {
  FakeDriver driver;
  LoweredAttention made;
  AskedLibraries libraries(driver, traits, made.asked);
  made.job = cuda::lower_attention(job, visible, 1000, libraries);
  return made;
}

const plan::Step& step_of(const plan::Job& job, const ops::OpSpec* op) {
  const auto found =
      std::ranges::find_if(job.steps, [&](const auto& step) { return step.op == op; });
  REQUIRE(found != job.steps.end());
  return *found;
}

std::string attribute(const plan::Step& step, const char* name) {
  return step.attributes.has(name) ? step.attributes.get<std::string>(name) : "";
}

/// Steps and their kernels.
struct AttentionKernels {
  std::vector<std::pair<std::string, std::string>> attention;
  exec::MemoryReport memory;
};

AttentionKernels kernels_of(const plan::Job& job, AskedLibraries::Traits traits, size_t memory) {
  std::vector<AttentionSpec> asked;
  auto driver = std::make_unique<FakeDriver>(FakeDevice{.memory = memory});
  FakeDriver& fake = *driver;
  auto libraries = std::make_unique<AskedLibraries>(fake, traits, asked);
  const auto backend = cuda::make_backend(std::move(driver), std::move(libraries));
  exec::PrepareOptions options;
  options.profile = true;
  AttentionKernels made;
  {
    const auto program = backend->prepare(job, options);
    made.memory = program->memory();
    for (const exec::LibraryStep& step : made.memory.library_steps)
      made.attention.emplace_back(step.step, step.kernel);
  }
  CHECK(fake.problems().empty());
  return made;
}

const std::vector<std::string> kAttentionResults = {
    "attended", "attended.logsumexp", "widened", "grads", "dkey", "dvalue"};

}  // namespace

TEST_CASE("the library is asked for attention and its gradients in 16 bits", "[cuda]") {
  AttentionJob made;
  const auto [job, asked] = lower_attended(made.build(), {}, made.gradients);
  REQUIRE(asked.size() == 2);
  for (const AttentionSpec& spec : asked) {
    CHECK(spec.dtype == DType::kBFloat16);
    CHECK(spec.query == Shape{2, 3, 5, 4});
    CHECK(spec.key == Shape{2, 3, 6, 4});
    CHECK(spec.value == Shape{2, 3, 6, 2});
    CHECK(spec.scale == 0.5);
    CHECK(spec.causal);
    CHECK_FALSE(spec.math_mode.any_order);
    CHECK(spec.most_workspace == 1000);
  }
  CHECK(std::ranges::count(asked, Pass::kForward, &AttentionSpec::pass) == 1);
  CHECK(asked.front().log_sums != asked.back().log_sums);
  CHECK(step_names(job) ==
        std::vector<std::string>{"attended:query:bfloat16", "attended:key:bfloat16",
                                 "attended:value:bfloat16", "attended", "widened", "dy",
                                 "grads:dy:bfloat16", "grads", "grads:dquery:float32",
                                 "grads:dkey:float32", "grads:dvalue:float32"});
  const plan::Step &forward = step_of(job, ops::kAttention),
                   &grad = step_of(job, ops::kAttentionGrad);
  for (const plan::TensorId id : forward.inputs) CHECK(job[id].dtype == DType::kBFloat16);
  CHECK(job[forward.outputs[0]].dtype == DType::kBFloat16);
  CHECK(job[forward.outputs[1]].dtype == DType::kFloat32);
  CHECK(std::ranges::equal(std::span(grad.inputs).subspan(1, 3), forward.inputs));
  CHECK(grad.inputs[4] == forward.outputs[0]);
  CHECK(grad.inputs[5] == forward.outputs[1]);
  for (const plan::TensorId id : grad.outputs) CHECK(job[id].dtype == DType::kBFloat16);
}

TEST_CASE("the library is asked for alignment at the bottom right, unless queries lack keys",
          "[cuda]") {
  const auto lower_aligned = [](int64_t diagonal) {
    plan::Job job = AttentionJob().build();
    for (plan::Step& step : job.steps)
      if (step.attributes.has("causal")) step.attributes.set("diagonal", diagonal);
    return lower_attended(job);
  };
  const LoweredAttention lowered = lower_aligned(1);
  REQUIRE(lowered.asked.size() == 2);
  for (const AttentionSpec& spec : lowered.asked) CHECK(spec.bottom_right);
  const LoweredAttention refused = lower_aligned(-1);
  CHECK(refused.asked.empty());
  CHECK(attribute(step_of(refused.job, ops::kAttention), "refusal") ==
        "it has queries without keys");
}

TEST_CASE("what is read in both dtypes is there in both", "[cuda]") {
  AttentionJob made;
  const plan::Job job = lower_attended(made.build(), {}, {made.out, made.rounded}).job;
  const std::vector<std::string> names = step_names(job);
  for (const char* name : {"attended:out:float32", "rounded"})
    CHECK(std::ranges::count(names, name) == 1);
}

TEST_CASE("other precisions leave attention as it is", "[cuda]") {
  for (const char* precision : {"float32", "tf32", "float64"}) {
    const auto [job, asked] = lower_attended(AttentionJob().build(precision));
    CHECK(asked.empty());
    CHECK(step_names(job) == step_names(AttentionJob().build()));
  }
}

TEST_CASE("what the library lacks stays in float32 and says why", "[cuda]") {
  const auto refusals = [](const LoweredAttention& lowered) {
    CHECK(step_names(lowered.job) == step_names(AttentionJob().build()));
    return std::pair(attribute(step_of(lowered.job, ops::kAttention), "refusal"),
                     attribute(step_of(lowered.job, ops::kAttentionGrad), "refusal"));
  };
  using Texts = std::pair<std::string, std::string>;
  CHECK(refusals(lower_attended(AttentionJob().build(), {.lacks = Pass::kForward})) ==
        Texts("no such engine", "the forward pass is not supported"));
  CHECK(refusals(lower_attended(AttentionJob().build(), {.lacks = Pass::kGrad})) ==
        Texts("the gradients are not supported", "no such engine"));
  CHECK(refusals(lower_attended(AttentionJob().build(), {.workspace = 1001})) ==
        Texts("too little workspace", "too little workspace"));
}

TEST_CASE("the library is not asked for what it is not known to compute right", "[cuda]") {
  struct Case {
    DType dtype;
    Shape shape;  // of the operand
    int64_t keys = 6, window = 0, diagonal = 0;
    std::string forward, grad = forward;
  };
  const Case one =
      GENERATE(Case{.dtype = DType::kBool, .shape = {5, 6}, .forward = "it has a mask"},
               Case{.dtype = DType::kFloat32,
                    .shape = {1, 3, 5, 6},
                    .forward = "the gradients are not supported",
                    .grad = "it has a bias and 6 keys, not a multiple of 128"},
               Case{.dtype = DType::kFloat32,
                    .shape = {5, 1},
                    .keys = 128,
                    .forward = "queries, keys or a part of the batch share its bias"},
               Case{.dtype = DType::kFloat32,
                    .shape = {2, 1, 1, 128},
                    .keys = 128,
                    .forward = "queries, keys or a part of the batch share its bias"},
               Case{.dtype = DType::kInt32,
                    .shape = {2},
                    .window = 3,
                    .forward = "it has lengths and a window"},
               Case{.dtype = DType::kInt64,
                    .shape = {2},
                    .diagonal = 1,
                    .forward = "it has lengths and `align: bottom_right`"});
  AttentionJob made(one.keys);
  made.add_operand("other", one.shape, one.dtype);
  plan::Job job = made.build();
  for (plan::Step& step : job.steps) {
    if (!step.attributes.has("causal")) continue;
    if (one.window > 0) step.attributes.set("window", one.window);
    if (one.diagonal > 0) step.attributes.set("diagonal", one.diagonal);
  }
  const auto [lowered, asked] = lower_attended(job);
  CHECK(attribute(step_of(lowered, ops::kAttention), "refusal") == one.forward);
  CHECK(attribute(step_of(lowered, ops::kAttentionGrad), "refusal") == one.grad);
  CHECK(asked.size() == (one.forward == one.grad ? 0 : 1));
  for (const plan::TensorId id : step_of(lowered, ops::kAttention).inputs)
    CHECK(lowered[id].dtype != DType::kBFloat16);
}

TEST_CASE("the library is not asked for a single query", "[cuda]") {
  plan::Job job = AttentionJob().build();
  for (plan::Tensor& tensor : job.tensors)
    if (tensor.shape.rank() > 2 && tensor.shape[2] == 5) tensor.shape[2] = 1;
  const LoweredAttention lowered = lower_attended(job);
  CHECK(lowered.asked.empty());
  CHECK(attribute(step_of(lowered.job, ops::kAttention), "refusal") == "it has a single query");
}

TEST_CASE("the library is asked for a bias in 16 bits and for lengths", "[cuda]") {
  const DType integers = GENERATE(DType::kInt32, DType::kInt64);
  AttentionJob made(128);
  const plan::TensorId bias = made.add_operand("bias", {3, 5, 128}, DType::kFloat32);
  const plan::TensorId lengths = made.add_operand("lengths", {2}, integers);
  const auto [job, asked] = lower_attended(made.build());
  REQUIRE(asked.size() == 2);
  for (const AttentionSpec& spec : asked) {
    CHECK(spec.bias == Shape{1, 3, 5, 128});
    CHECK(spec.lengths);
  }
  const plan::Step &forward = step_of(job, ops::kAttention),
                   &grad = step_of(job, ops::kAttentionGrad);
  REQUIRE(forward.inputs.size() == 5);
  CHECK(forward.inputs[3] != bias);
  CHECK(job[forward.inputs[3]].name == "attended:bias:bfloat16");
  CHECK(job[forward.inputs[3]].dtype == DType::kBFloat16);
  CHECK(forward.inputs[4] == lengths);
  CHECK(std::ranges::equal(std::span(grad.inputs).last(2), std::span(forward.inputs).last(2)));
}

TEST_CASE("the library computes groups of heads and windows", "[cuda]") {
  AttentionJob made;
  plan::Job job = made.build();
  job.tensors[made.query.index()].shape = {2, 6, 5, 4};
  for (plan::Step& step : job.steps)
    if (step.op == ops::kAttention || step.op == ops::kAttentionGrad)
      step.attributes.set("window", int64_t{3});
  const auto [lowered, asked] = lower_attended(job);
  REQUIRE(asked.size() == 2);
  for (const AttentionSpec& spec : asked) {
    CHECK(spec.query == Shape{2, 6, 5, 4});
    CHECK(spec.key == Shape{2, 3, 6, 4});
    CHECK(spec.window == 3);
  }
}

TEST_CASE("what is watched changes nothing about other steps", "[cuda]") {
  AttentionJob made;
  plan::Job job = made.build();
  job.steps.back().probe = true;  // the gradients
  const plan::Job both = lower_attended(job).job;
  for (const plan::Step& step : both.steps)
    CHECK(step.probe == (step.name.starts_with("grads") || step.name == "dy:bfloat16"));
  const plan::Job forward = lower_attended(job, {.lacks = Pass::kGrad}).job;
  CHECK(forward[step_of(forward, ops::kAttention).outputs[0]].dtype == DType::kBFloat16);
  CHECK(forward[step_of(forward, ops::kAttentionGrad).outputs[0]].dtype == DType::kFloat32);
}

TEST_CASE("reports name the kernel of each attention step and its workspace", "[cuda]") {
  constexpr size_t kMemory = size_t{1} << 30, kWorkspace = 5000;
  const plan::Job job = AttentionJob().build();
  using Texts = std::vector<std::pair<std::string, std::string>>;
  const AttentionKernels library = kernels_of(job, {.workspace = kWorkspace}, kMemory);
  CHECK(library.attention == Texts{{"attended", "plain loops"}, {"grads", "plain loops"}});
  CHECK(library.memory.library_steps[0].workspace == kWorkspace);
  CHECK(library.memory.arena >= kWorkspace);
  CHECK(kernels_of(job, {.lacks = Pass::kGrad}, kMemory).attention ==
        Texts{{"attended", "flow kernel: the gradients are not supported"},
              {"grads", "flow kernel: no such engine"}});
  CHECK(kernels_of(AttentionJob().build("float32"), {}, kMemory).attention ==
        Texts{{"attended", "flow kernel"}, {"grads", "flow kernel"}});
}

TEST_CASE("attention in 16 bits gives what it gives in float32, rounded", "[cuda]") {
  AttentionJob made;
  const plan::Job job = made.build();
  const Arrays values = random_values(job);
  FakeGpu gpu;
  const Arrays low = run(job, values, kAttentionResults, {.backend = gpu.backend.get()});
  const Arrays expected = run(made.build("float32"), values, kAttentionResults);
  for (const std::string& name : kAttentionResults) {
    INFO(name);
    const auto got = low.at(name).as<float>(), want = expected.at(name).as<float>();
    for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(0.02));
  }
  CHECK(gpu.driver->count("captured launch naive_attention") >= 2);
  gpu.backend.reset();
}

TEST_CASE("a bias and lengths in 16 bits give what they give in float32, rounded", "[cuda]") {
  const std::vector<int32_t> lengths =
      GENERATE(std::vector<int32_t>{128, 2}, std::vector<int32_t>{0, 77});
  const bool biased = GENERATE(true, false);
  AttentionJob made(128);
  if (biased) made.add_operand("bias", {1, 3, 5, 128}, DType::kFloat32);
  made.add_operand("lengths", {2}, DType::kInt32);
  std::vector<std::string> wanted = kAttentionResults;
  if (biased) {
    made.add_bias_gradient();
    wanted.push_back("dbias");
  }
  const plan::Job job = made.build();
  Arrays values = random_values(job);
  std::ranges::copy(lengths, values.at("lengths").as<int32_t>().begin());
  if (biased)  // a query of head 1 sees no key
    std::ranges::fill(values.at("bias").as<float>().subspan((5 + 2) * 128, 128), -INFINITY);
  FakeGpu gpu;
  const Arrays low = run(job, values, wanted, {.backend = gpu.backend.get()});
  const Arrays expected = run(made.build("float32"), values, wanted);
  for (const std::string& name : wanted) {
    INFO(name);
    const auto got = low.at(name).as<float>(), want = expected.at(name).as<float>();
    for (size_t i = 0; i < want.size(); ++i) {
      // What is hidden is exactly 0. The gradient of the bias of an only key is a rounding.
      if (want[i] == 0 && name != "dbias")
        CHECK(got[i] == 0);
      else
        CHECK(got[i] == Approx(want[i]).margin(0.03));
    }
  }
  CHECK(gpu.driver->count("captured launch naive_attention") >= 2);
  gpu.backend.reset();
}

TEST_CASE("a length that is not in range is a fault of the step", "[cuda]") {
  AttentionJob made;
  made.add_operand("lengths", {2}, DType::kInt32);
  FakeGpu gpu;
  const plan::Job job = made.build();
  const auto program = gpu.backend->prepare(job, {});
  const int32_t wrong = GENERATE(-1, 7);
  auto* lengths = reinterpret_cast<int32_t*>(program->input(tensor(job, "lengths"), 0).data());
  lengths[0] = 3, lengths[1] = wrong;
  program->launch({0, 0.1, {}}, 0, 0);
  program->wait(0);
  const auto fault = program->fault(0);
  REQUIRE(fault);
  CHECK(fault->operand == "lengths");
  CHECK(fault->row == 1);
  CHECK(fault->value == wrong);
  CHECK(fault->limit == 7);
}

TEST_CASE("our kernels let nothing through that is hidden, whatever it holds", "[cuda]") {
  const std::string hides = GENERATE("causal", "mask", "bias", "lengths");
  AttentionJob made;
  if (hides == "mask") made.add_operand("mask", {1, 1, 5, 6}, DType::kBool);
  if (hides == "bias") made.add_operand("bias", {5, 6}, DType::kFloat32);
  if (hides == "lengths") made.add_operand("lengths", {2}, DType::kInt32);
  const plan::Job job = made.build("float32");
  const size_t hidden = hides == "causal" ? 5 : hides == "lengths" ? 4 : 1;
  const auto with_key = [&](float held) {
    Arrays values;
    for (const plan::Tensor& tensor : job.tensors)
      if (tensor.role == plan::Role::kInput) {
        Array array(tensor.dtype, tensor.shape);
        for (size_t i = 0; tensor.dtype == DType::kFloat32 && i < array.as<float>().size(); ++i)
          array.as<float>()[i] = std::sin(static_cast<float>(i));
        if (tensor.dtype == DType::kInt32) std::ranges::fill(array.as<int32_t>(), 4);
        for (size_t i = 0; i < 30 && tensor.dtype == DType::kBool; ++i)
          array.as<bool>()[i] = i % 6 != hidden;
        for (size_t i = hidden; i < 30 && tensor.name == "bias"; i += 6)
          array.as<float>()[i] = -INFINITY;
        if (tensor.name == "key" || tensor.name == "value") {
          const auto depth = static_cast<size_t>(tensor.shape[3]);
          for (size_t row = hidden; row < 36; row += 6)
            std::ranges::fill(array.as<float>().subspan(row * depth, depth), held);
        }
        values.emplace(tensor.name, std::move(array));
      }
    return values;
  };
  FakeGpu gpu;
  const RunJob options{.backend = gpu.backend.get()};
  const std::vector<std::string> results = {"attended", "grads", "dkey", "dvalue"};
  const Arrays expected = run(job, with_key(0.5f), results, options);
  CHECK(same_bits(run(job, with_key(NAN), results, options), expected));
  CHECK(same_bits(run(job, with_key(INFINITY), results, options), expected));
  CHECK(gpu.driver->problems().empty());
}

TEST_CASE("a job that leaves no workspace runs our kernel in 16 bits", "[cuda]") {
  // Three quarters are for a job, a quarter would be for a workspace: of so little, both are less.
  const plan::Job job = AttentionJob().build();
  const size_t tensors = kernels_of(job, {}, size_t{1} << 30).memory.total();
  const size_t memory = (tensors + 512) / 3 * 4;
  const AttentionKernels full = kernels_of(job, {.workspace = memory / 4}, memory);
  REQUIRE(full.memory.workspace_limit);
  using Texts = std::vector<std::pair<std::string, std::string>>;
  CHECK(full.attention == Texts{{"attended", "flow kernel"}, {"grads", "flow kernel"}});
}

}  // namespace flow::test
