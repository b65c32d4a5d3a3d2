// Chooses and opens the devices of a run.
#include "cli/flowrun/flowrun.h"

#include <fmt/format.h>

#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/multi_device/multi_device.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli {
namespace {

/// `instead`: how to run on the CPU.
RunError no_gpu(const std::string& what, const exec::Gpu& gpu, const std::string& instead) {
  return RunError(fmt::format("{}, but none is usable: {}", what, gpu.problem()),
                  fmt::format("{}; or run on the CPU: {}", gpu.remedy(), instead));
}

/// "lenet.yaml:36:3: job `train` runs on a GPU", or the first step that does.
std::string what_is_for_gpu(const plan::Job& job) {
  for (const plan::Step& step : job.steps)
    if (step.device == plan::DeviceKind::kGpu && !step.op->between_devices)
      return fmt::format("{}: `{}` of job `{}` runs on a GPU", step.where, step.name, job.name);
  return fmt::format("{}: job `{}` runs on a GPU", job.where, job.name);
}

/// Placements of a job file may put a job on the CPU, whatever `--device gpu` asks for.
bool runs_on_cpu(const plan::Plan& plan, const plan::Job& job) {
  return job.device == plan::DeviceKind::kCpu && !plan::needs_two_devices(plan, job);
}

void require_cpu_allowed(const LoadedPlan& loaded, const plan::Job& job,
                         const RunOptions& options) {
  if (options.device == "gpu" && !loaded.from_job_file)
    throw RequestError(
        fmt::format("job `{}` of {} is compiled for the CPU", job.name, options.file),
        "omit --device gpu; or remove the job's CPU placement and run flowc build --device gpu");
}

void require_gpu(const LoadedPlan& loaded, const plan::Job& job, const RunOptions& options,
                 const exec::Gpu& gpu) {
  if (options.device == "cpu")
    throw RequestError(fmt::format("job `{}` of {} is compiled for a GPU", job.name, options.file),
                       "rebuild the plan with flowc build --device cpu");
  if (!gpu.found())
    throw no_gpu(
        what_is_for_gpu(job), gpu,
        loaded.from_job_file ? "--device cpu" : "rebuild the plan with flowc build --device cpu");
}

/// Those that `ids` names, each for a rank of this process; or the first one.
std::vector<int> gpus_of(const plan::Job& job) {
  std::vector<int> gpus;
  for (const plan::DeviceId& id : plan::devices_of(job.ids))
    gpus.push_back(static_cast<int>(id.device));
  return gpus.empty() ? std::vector{0} : gpus;
}

}  // namespace

exec::Gpu find_gpu(const RunOptions& options) {
  if (options.device == "cpu") return {"--device cpu", ""};
  exec::Gpu gpu = exec::find_gpu();
  if (options.device == "gpu" && !gpu.found())
    throw no_gpu("--device gpu requires a GPU", gpu, "--device cpu");
  return gpu;
}

std::unique_ptr<exec::Backend> RunDevices::open(const exec::Gpu& gpu, size_t rank) const {
  if (gpus.empty()) return cpu::make_backend();
  auto backend = gpu.open(gpus[rank]);
  return cpu_too ? exec::make_multi_device_backend(cpu::make_backend(), std::move(backend))
                 : std::move(backend);
}

std::vector<std::string> RunDevices::names() const {
  std::vector<std::string> names;
  for (const int gpu : gpus) names.push_back(fmt::format("GPU {}", gpu));
  return names;
}

RunDevices choose_devices(const LoadedPlan& loaded, const plan::Job& job, const RunOptions& options,
                          const exec::Gpu& gpu, const RankSession* session) {
  if (runs_on_cpu(loaded.plan, job)) {
    require_cpu_allowed(loaded, job, options);
    return {};
  }
  require_gpu(loaded, job, options, gpu);
  RunDevices devices{session ? std::vector{session->gpu(job)} : gpus_of(job),
                     plan::needs_two_devices(loaded.plan, job)};
  if (devices.cpu_too && devices.gpus.size() > 1)
    throw RequestError(
        fmt::format(
            "{}: job `{}` runs on {} and the CPU; one process supports one GPU with the CPU",
            job.where, job.name, counted(devices.gpus.size(), "GPU")),
        fmt::format("start one process a GPU: mpirun -np {} flowrun ... --distributed",
                    devices.gpus.size()));
  return devices;
}

std::string why_cpu(const RunOptions& options, const LoadedPlan& loaded, const plan::Job& job,
                    const exec::Gpu& gpu) {
  if (options.device == "cpu" || !runs_on_cpu(loaded.plan, job)) return "";
  if (!gpu.found()) return gpu.problem();
  return loaded.from_job_file ? "set by the job file" : "the plan is compiled for the CPU";
}

}  // namespace flow::cli
