// Runs single kernels of the CUDA backend.
#include "tests/property/cuda/device_case.h"

#include <catch2/catch.hpp>

#include <deque>

#include "tests/property/tolerance.h"

namespace flow::test {
namespace {

/// A step, its operands and their memory on the device.
class DeviceCase {
 public:
  DeviceCase(const KernelCase& one, cuda::Driver& driver, cuda::Libraries& libraries,
             cuda::Checks& checks, cuda::Stream stream)
      : one_(one),
        driver_(driver),
        stream_(stream),
        step_(step_of(one)),
        request_{{.step = step_, .seed = 7}, {}, driver, libraries, checks} {
    for (const Array& input : one.inputs) {
      inputs_.push_back(allocate(input.bytes().size()));
      driver.copy(inputs_.back(), input.bytes().data(), input.bytes().size(), stream);
      request_.inputs.push_back({"operand", input.dtype(), input.shape()});
    }
    for (const Result& result : one.results) {
      const size_t bytes = static_cast<size_t>(result.shape.elements()) * size_of(result.dtype);
      outputs_.push_back(result.unused      ? nullptr
                         : result.alias < 0 ? allocate(bytes)
                                            : inputs_[static_cast<size_t>(result.alias)]);
      request_.outputs.push_back({"result", result.dtype, result.shape, !result.unused});
    }
  }
  ~DeviceCase() {
    for (std::byte* memory : owned_) driver_.release(memory);
  }
  DeviceCase(const DeviceCase&) = delete;
  DeviceCase& operator=(const DeviceCase&) = delete;

  const cuda::Request& request() const { return request_; }
  std::byte* allocate(size_t bytes) {
    owned_.push_back(driver_.allocate(bytes));
    return owned_.back();
  }
  cuda::Buffers buffers(std::byte* workspace) const { return {inputs_, outputs_, {}, workspace}; }
  KernelRun read() {
    KernelRun run;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Array array(one_.results[i].dtype, one_.results[i].shape);
      if (outputs_[i])
        driver_.copy(array.bytes().data(), outputs_[i], array.bytes().size(), stream_);
      run.outputs.push_back(std::move(array));
    }
    driver_.synchronize(stream_);
    return run;
  }

 private:
  static plan::Step step_of(const KernelCase& one) {
    plan::Step step;
    step.op = step.name = one.op;
    step.where = "job.yaml:1:1";
    for (const auto& [name, value] : one.attributes) step.attributes.set(name, value);
    return step;
  }

  const KernelCase& one_;
  cuda::Driver& driver_;
  cuda::Stream stream_;
  plan::Step step_;
  cuda::Request request_;
  std::vector<std::byte*> inputs_, outputs_, owned_;
};

/// A device with what a call has besides its tensors.
class Rig {
 public:
  explicit Rig(const DeviceSettings& settings)
      : device(open_test_device(settings.lanes)), driver(device->driver()) {
    stream = driver.create_stream();
    call_ = driver.allocate(sizeof(cuda::CallBlock));
    fault_ =
        new (driver.allocate_pinned(sizeof(cuda::FaultBlock))) cuda::FaultBlock(settings.fault);
    const cuda::CallBlock call{settings.step, settings.learning_rate};
    driver.copy(call_, &call, sizeof call, stream);
    driver.synchronize(stream);
  }
  /// Captures what `launch` does, and runs the graph.
  template <typename Launch>
  void run(Launch launch) {
    driver.begin_capture(stream);
    launch(
        cuda::LaunchState{driver, stream, reinterpret_cast<const cuda::CallBlock*>(call_), fault_});
    const cuda::Graph graph = driver.end_capture(stream);
    driver.launch(graph, stream);
    driver.synchronize(stream);
    driver.destroy(graph);
  }
  /// REQUIRES: what was run is complete.
  const cuda::FaultBlock& fault() const { return *fault_; }
  void finish() {
    driver.release(call_);
    driver.release_pinned(reinterpret_cast<std::byte*>(fault_));
    driver.destroy(stream);
    device->finish();
  }

  std::unique_ptr<TestDevice> device;
  cuda::Driver& driver;
  cuda::Checks checks;
  cuda::Stream stream;

 private:
  std::byte* call_;
  cuda::FaultBlock* fault_;
};

}  // namespace

DeviceRun run_on_device(const KernelCase& one, const DeviceSettings& settings) {
  const cuda::KernelEntry& entry = *cuda::find_kernel(one.op);
  if (entry.prepare_updates) return {run_updates_on_device({&one, 1}, settings).runs[0], {}};
  Rig rig(settings);
  DeviceRun result;
  {
    DeviceCase on_device(one, rig.driver, rig.device->libraries(), rig.checks, rig.stream);
    const cuda::Kernel kernel = entry.prepare(on_device.request());
    std::byte* workspace = kernel.workspace ? on_device.allocate(kernel.workspace) : nullptr;
    rig.run([&](const cuda::LaunchState& state) {
      kernel.launch(on_device.buffers(workspace), state);
    });
    result = {on_device.read(), rig.fault()};
  }
  if (const int32_t check = result.block.check; check > 0) {
    const cuda::Check& known = rig.checks.at(static_cast<size_t>(check) - 1);
    result.run.fault = {known.where, known.operand, result.block.row, result.block.value,
                        known.limit};
  }
  rig.finish();
  return result;
}

UpdatesRun run_updates_on_device(std::span<const KernelCase> cases,
                                 const DeviceSettings& settings) {
  Rig rig(settings);
  UpdatesRun result;
  {
    std::deque<DeviceCase> on_device;
    std::vector<cuda::Request> requests;
    std::vector<cuda::Buffers> buffers;
    for (const KernelCase& one : cases) {
      on_device.emplace_back(one, rig.driver, rig.device->libraries(), rig.checks, rig.stream);
      requests.push_back(on_device.back().request());
      buffers.push_back(on_device.back().buffers(nullptr));
    }
    const cuda::Updates updates = cuda::find_kernel(cases[0].op)->prepare_updates(requests);
    if (updates.workspace) buffers[0].workspace = on_device[0].allocate(updates.workspace);
    rig.run([&](const cuda::LaunchState& state) { updates.launch(buffers, state); });
    for (DeviceCase& one : on_device) result.runs.push_back(one.read());
  }
  result.launches = rig.device->captured_launches();
  rig.finish();
  return result;
}

void require_reference(const KernelCase& one) {
  INFO(one.str());
  const KernelRun expected = run_kernel(one, {cpu::reference_kernels()});
  const KernelRun got = run_on_device(one).run;
  for (size_t i = 0; i < one.results.size(); ++i)
    require_near(one, got.outputs[i], expected.outputs[i]);
  CHECK(same_bits(got, run_on_device(one, {LaneOrder::kReversed}).run));
}

}  // namespace flow::test
