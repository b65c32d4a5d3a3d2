// The CPU backend: from a job to a prepared program.
#include "runtime/cpu/backend.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/cost.h"
#include "runtime/cpu/features.h"
#include "runtime/cpu/layout.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/program.h"
#include "runtime/cpu/stage.h"

namespace flow::cpu {
namespace {

/// Bytes that the system can give without swapping; no limit where it does not say.
size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (size_t kibibytes = 0; file >> key >> kibibytes; std::getline(file, unit))
    if (key == "MemAvailable:") return kibibytes * 1024;
  return std::numeric_limits<size_t>::max();
}

RunError too_large(const plan::Job& job, size_t needed, size_t available,
                   const std::string& largest) {
  return RunError(
      fmt::format("{}: job `{}` needs {} of memory, {} are available; largest: {}", job.where,
                  job.name, human_bytes(needed), human_bytes(available), largest),
      "a smaller batch takes less");
}

/// A tensor that cannot fit alone is refused before its size is multiplied with anything.
void check_tensors_fit(const plan::Job& job, size_t available) {
  for (const plan::Tensor& tensor : job.tensors) {
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype);
    if (bytes > available) throw too_large(job, bytes, available, "`" + tensor.name + "`");
  }
}

void check_memory_fits(const plan::Job& job, const MemoryPlan& memory,
                       const exec::PrepareOptions& options, size_t available) {
  size_t needed = memory.report.variables + memory.report.arena +
                  memory.report.inputs * std::max<size_t>(1, options.input_slots);
  for (plan::TensorId id : options.deliverables)
    needed += static_cast<size_t>(job[id].shape.elements()) * size_of(job[id].dtype) *
              std::max<size_t>(1, options.output_slots);
  if (needed <= available) return;
  std::vector<std::string> largest;
  for (const exec::MemoryReport::Holder& holder : memory.report.at_peak) {
    if (largest.size() == 3) break;
    largest.push_back(fmt::format("`{}` {}", holder.name, human_bytes(holder.bytes)));
  }
  throw too_large(job, needed, available, join(largest, ", "));
}

class CpuBackend : public exec::Backend {
 public:
  explicit CpuBackend(std::span<const KernelEntry> kernels) : kernels_(kernels) {}

  std::string device() const override { return "cpu"; }
  std::string instruction_set() const override { return cpu::instruction_set(); }
  std::map<std::string, std::string> libraries() const override {
    return {{"onednn", onednn_version()}};
  }

  std::unique_ptr<exec::Program> prepare(const plan::Job& job,
                                         const exec::PrepareOptions& options) override {
    const SingleThreadedLibraries single;  // kernels make their primitives for one thread each
    const size_t available = available_memory();
    check_tensors_fit(job, available);
    const int threads = choose_threads(job, options.threads);
    const std::vector<Layout> layouts = assign_layouts(job, choose_kernels(job, kernels_));
    const std::vector<plan::TensorId> owners = share_memory(job, layouts);
    const StageContext context{job, layouts, owners, kernels_, threads};
    std::vector<Stage> stages;
    std::vector<size_t> workspaces;
    for (const plan::Step& step : job.steps) {
      stages.push_back(is_view(step, owners) ? Stage{} : prepare_stage(context, step));
      workspaces.push_back(stages.back().workspace);
    }
    MemoryPlan memory = plan_memory(job, owners, workspaces);
    check_memory_fits(job, memory, options, available);
    return std::make_unique<CpuProgram>(job, options, layouts, std::move(stages), std::move(memory),
                                        threads);
  }

 private:
  std::span<const KernelEntry> kernels_;
};

}  // namespace

std::unique_ptr<exec::Backend> make_backend() { return make_backend({}); }

std::unique_ptr<exec::Backend> make_backend(std::span<const KernelEntry> kernels) {
  return std::make_unique<CpuBackend>(kernels);
}

}  // namespace flow::cpu
