// The job, its data and its program.
#include "tests/unit/exec/fake_job.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/core/profile.h"
#include "runtime/io/elements.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

class FakeProgram : public Program {
 public:
  FakeProgram(const plan::Job& job, const PrepareOptions& options, FakeBackend& backend)
      : job_(job),
        options_(options),
        backend_(backend),
        shared_(shared_variables(job, options.variable_sources)) {
    for (const plan::Tensor& tensor : job.tensors) values_.emplace_back(tensor.dtype, tensor.shape);
    inputs_.assign(options.input_slots, Array(job[kX].dtype, job[kX].shape));
    launched_.resize(options.output_slots);
    for (size_t slot = 0; slot < options.output_slots; ++slot) {
      outputs_.emplace_back();
      for (const plan::TensorId id : options.deliverables)
        outputs_.back().emplace_back(job[id].dtype, job[id].shape);
    }
  }

  const MemoryReport& memory() const override { return memory_; }
  int threads() const override { return 1; }
  void write_variable(plan::TensorId variable, const ArrayView& value) override {
    std::memcpy(value_of(variable).bytes().data(), value.data, value.bytes());
  }
  void read_variable(plan::TensorId variable, std::span<std::byte> into) const override {
    std::ranges::copy(value_of(variable).bytes(), into.begin());
  }
  std::span<std::byte> input(plan::TensorId, size_t slot) override { return inputs_[slot].bytes(); }

  void launch(const Call& call, size_t input_slot, size_t output_slot) override {
    if (backend_.on_launch) backend_.on_launch(call);
    launched_[output_slot] = call.step;
    if (backend_.timed) began_ = Profile::now();
    if (backend_.beside) backend_.calls.push_back("launch " + std::to_string(call.step));
    std::ranges::copy(inputs_[input_slot].bytes(), values_[kX.index()].bytes().begin());
    compute(call.step);
    if (call.fingerprints) take_fingerprints();
    for (size_t i = 0; i < options_.deliverables.size(); ++i)
      if (call.wanted[i])
        std::ranges::copy(value_of(options_.deliverables[i]).bytes(),
                          outputs_[output_slot][i].bytes().begin());
    if (job_.train) update(call.learning_rate);
  }
  void wait(size_t slot) override {
    if (backend_.beside) backend_.calls.push_back("wait " + std::to_string(launched_[slot]));
  }
  std::span<const std::byte> delivered(plan::TensorId tensor, size_t slot) const override {
    const auto found = std::ranges::find(options_.deliverables, tensor);
    return outputs_[slot][static_cast<size_t>(found - options_.deliverables.begin())].bytes();
  }
  /// Of inputs and variables as the last call found them, and of what it computed.
  std::vector<plan::TensorId> fingerprinted() const override { return {kX, kW, kY}; }
  std::span<const Fingerprint> fingerprints(size_t) const override { return fingerprints_; }
  std::vector<TimedStep> timed_steps() const override {
    if (!backend_.timed) return {};
    return {{"y/rarely", "add", ""}, {"y/often", "add", "by hand"}};
  }
  std::span<const int64_t> step_times(size_t slot) const override {
    if (!backend_.timed) return {};
    const int64_t rarely = launched_[slot] % 2 == 0 ? 1000 : 0;
    times_ = {began_, began_ + rarely, began_ + rarely + 3000};
    return times_;
  }
  std::optional<Fault> fault(size_t slot) const override {
    if (backend_.faulty_step != launched_[slot]) return std::nullopt;
    return Fault{"job.yaml:9:3", "labels", 3, 7, 5};
  }

 private:
  /// Variables that another program has are its own.
  Array& value_of(plan::TensorId id) const {
    for (const SharedVariable& shared : shared_)
      if (shared.tensor == id)
        return static_cast<const FakeProgram*>(shared.program)->value_of(shared.theirs);
    return values_[id.index()];
  }
  std::span<float> floats(plan::TensorId id) { return value_of(id).as<float>(); }

  void compute(int64_t step) {
    const auto x = floats(kX), w = floats(kW), y = floats(kY);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = x[i] + w[i % 2];
      sum += y[i];
      floats(kDiff)[i] = 1;
    }
    floats(kLoss)[0] = static_cast<float>(sum / static_cast<double>(y.size()));
    if (backend_.nan_step != step) return;
    floats(kLoss)[0] = std::numeric_limits<float>::quiet_NaN();
    y[3] = std::numeric_limits<float>::infinity();
  }

  void take_fingerprints() {
    fingerprints_.clear();
    for (const plan::TensorId id : fingerprinted()) {
      const std::span<const std::byte> bytes = value_of(id).bytes();
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      fingerprints_.push_back(
          {.count = static_cast<int64_t>(bytes.size() / sizeof(float)), .hash = fnv1a64(text)});
    }
  }

  void update(double learning_rate) {
    const auto x = floats(kX), w = floats(kW), slot = floats(kSlot);
    for (size_t column = 0; column < 2; ++column) {
      double sum = 0;
      for (size_t i = column; i < x.size(); i += 2) sum += x[i];
      slot[column] =
          0.5F * slot[column] + static_cast<float>(sum / (static_cast<double>(x.size()) / 2));
      w[column] -= static_cast<float>(learning_rate) * slot[column];
    }
  }

  const plan::Job& job_;
  const PrepareOptions options_;
  FakeBackend& backend_;
  MemoryReport memory_;
  mutable std::vector<Array> values_;  // as memory is that programs share
  std::vector<SharedVariable> shared_;
  std::vector<Array> inputs_;
  std::vector<std::vector<Array>> outputs_;
  std::vector<int64_t> launched_;  // steps, by output slot
  std::vector<Fingerprint> fingerprints_;
  int64_t began_ = 0;
  mutable std::array<int64_t, 3> times_{};
};

plan::Tensor tensor(const std::string& name, Shape shape, plan::Role role, int batch_axis) {
  plan::Tensor made;
  made.name = name;
  made.shape = std::move(shape);
  made.role = role;
  made.batch_axis = batch_axis;
  made.where = "job.yaml:5:5";
  return made;
}

plan::Dataset dataset() {
  plan::Column column;
  column.name = "x";
  column.source = plan::SourceKind::kNpy;
  column.files = {"x.npy"};
  column.row_shape = {2};
  column.where = "job.yaml:3:5";
  plan::Dataset dataset;
  dataset.name = "d";
  dataset.columns = {column};
  dataset.where = "job.yaml:2:3";
  return dataset;
}

}  // namespace

plan::Job make_job(bool train, int64_t batch) {
  plan::Job job;
  job.name = train ? "train" : "eval";
  job.where = "job.yaml:4:3";
  job.train = train;
  job.seed = 1;
  job.tensors = {tensor("x", {batch, 2}, plan::Role::kInput, 0),
                 tensor("net/w", {2}, plan::Role::kVariable, plan::kNoBatch),
                 tensor("net/w/momentum", {2}, plan::Role::kVariable, plan::kNoBatch),
                 tensor("y", {batch, 2}, plan::Role::kResult, 0),
                 tensor("loss", {}, plan::Role::kResult, plan::kBatchReduced),
                 tensor("y:diff", {batch, 2}, plan::Role::kResult, 0)};
  plan::Variable w{kW, plan::initializers::Constant{0.5}, true, false};
  job.variables = {w, {kSlot, {}, false, true}};
  job.datasets = {dataset()};
  job.inputs = {{kX, plan::FromDataset{"d", "", "x"}, "job.yaml:5:5", "job.yaml:5:30"}};
  if (train) {
    const plan::Schedule rate{plan::schedules::Constant{0.125}};
    job.optimizer = plan::Optimizer{"sgd", rate, kLoss, "loss", {}, {}, "job.yaml:8:5"};
  } else {
    job.run.checkpoint.load = {"none"};
  }
  return job;
}

plan::Hook watch(plan::TensorId tensor, const std::string& name,
                 std::vector<plan::StepRange> steps) {
  plan::Hook hook;
  hook.tensor = tensor;
  hook.name = name;
  hook.steps = std::move(steps);
  hook.sinks = {plan::NpySink{}};
  hook.where = "job.yaml:11:7";
  return hook;
}

plan::Returns returns(plan::TensorId tensor, std::vector<plan::Sink> sinks) {
  plan::Returns made;
  made.type = "Numpy";
  made.value.tensor = tensor;
  made.value.name = tensor == kX ? "x" : tensor == kY ? "y" : "loss";
  made.sinks = std::move(sinks);
  made.where = "job.yaml:10:5";
  return made;
}

void write_rows(const fs::path& path, int64_t rows) {
  Array array(DType::kFloat32, {rows, 2});
  for (size_t i = 0; i < array.as<float>().size(); ++i)
    array.as<float>()[i] = static_cast<float>(i);
  io::write_npy(path, array.view());
}

std::vector<double> numbers(const fs::path& path) {
  const Array array = io::read_npy(path);
  return io::visit_elements(array.view(), [](auto elements) {
    std::vector<double> all;
    for (const auto element : elements) all.push_back(static_cast<double>(element));
    return all;
  });
}

std::unique_ptr<Program> FakeBackend::prepare(const plan::Job& job, const PrepareOptions& options) {
  if (job.inputs.empty()) throw RunError("the fake device runs jobs of make_job alone");
  ++prepared;
  std::set<plan::TensorId>& wanted = always.emplace_back();
  for (size_t i = 0; i < options.deliverables.size(); ++i)
    if (options.always[i]) wanted.insert(options.deliverables[i]);
  return std::make_unique<FakeProgram>(job, options, *this);
}

namespace {

std::vector<plan::Job> jobs_of(plan::Job made, std::optional<plan::Job> called) {
  std::vector<plan::Job> jobs{std::move(made)};
  if (called) jobs.push_back(std::move(*called));
  return jobs;
}

}  // namespace

TestRun::TestRun(plan::Job made, const fs::path& home, const std::string& out,
                 std::optional<plan::Job> called)
    : plan{plan::kVersion, "job.yaml", "", jobs_of(std::move(made), std::move(called)), {}},
      request(plan, plan.jobs[0], home, home / out) {
  request.say = [this](const std::string& text) { said.push_back(text); };
}

RunOutcome TestRun::run() {
  fs::create_directories(request.directory);
  return exec::run(backend, request);
}

std::string TestRun::refusal(int* exit_status) {
  try {
    run();
  } catch (const RunError& error) {
    if (exit_status) *exit_status = error.exit_status();
    return error.what() + std::string(error.hint().empty() ? "" : "\n") + error.hint();
  }
  return "no error";
}

std::vector<Json> TestRun::metrics() const {
  std::vector<Json> lines;
  for (const std::string& line : split(read_text(*this / "metrics.jsonl"), '\n'))
    if (!line.empty()) lines.push_back(Json::parse(line));
  return lines;
}

Json TestRun::record() const { return Json::parse(read_text(*this / "run.json")); }

}  // namespace flow::exec
