// The backend of jobs on two devices.
#include "runtime/exec/multi_device/multi_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/exec/multi_device/multi_device_program.h"

namespace flow::exec {
namespace {

using plan::DeviceKind;

class MultiDeviceBackend : public Backend {
 public:
  MultiDeviceBackend(std::unique_ptr<Backend> cpu, std::unique_ptr<Backend> gpu)
      : backends_{std::move(cpu), std::move(gpu)} {}

  std::string device() const override { return both(&Backend::device); }
  std::string instruction_set() const override { return both(&Backend::instruction_set); }
  std::map<std::string, std::string> libraries() const override {
    std::map<std::string, std::string> all = backends_[0]->libraries();
    all.merge(backends_[1]->libraries());
    return all;
  }
  HostMemory host_memory(size_t bytes) override { return gpu().host_memory(bytes); }

  std::unique_ptr<Program> prepare(const plan::Job& job, const PrepareOptions& options) override {
    Split parts = split_job(job, options.deliverables);
    HostMemory memory = memory_for(job, parts.transfers);
    auto program = std::make_unique<MultiDeviceProgram>(job, std::move(parts), std::move(memory));
    for (const DeviceKind device : {DeviceKind::kGpu, DeviceKind::kCpu})
      if (program->has(device))
        program->set(device, backends_[index_of(device)]->prepare(
                                 program->part(device).job, program->options_for(device, options)));
    program->begin(job, options);
    return program;
  }

 private:
  Backend& gpu() { return *backends_[index_of(DeviceKind::kGpu)]; }

  /// "cuda:0 NVIDIA H100 and cpu"
  std::string both(std::string (Backend::*text)() const) const {
    return fmt::format("{} and {}", (*backends_[1].*text)(), (*backends_[0].*text)());
  }

  HostMemory memory_for(const plan::Job& job, const std::vector<Transfer>& transfers) {
    if (transfers.empty()) return nullptr;
    try {
      const size_t bytes = MultiDeviceProgram::bytes_of(transfers);
      HostMemory memory = host_memory(bytes);
      // Kernels that are tried before the first call read it: indices, say, must be in range.
      std::memset(memory.get(), 0, bytes);
      return memory;
    } catch (const RunError& error) {
      throw error.at(fmt::format("{}: job `{}`", job.where, job.name));
    }
  }

  std::array<std::unique_ptr<Backend>, kDeviceKinds> backends_;  // by DeviceKind
};

}  // namespace

std::unique_ptr<Backend> make_multi_device_backend(std::unique_ptr<Backend> cpu,
                                                   std::unique_ptr<Backend> gpu) {
  return std::make_unique<MultiDeviceBackend>(std::move(cpu), std::move(gpu));
}

}  // namespace flow::exec
