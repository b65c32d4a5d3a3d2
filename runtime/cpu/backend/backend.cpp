// The CPU backend, which lists the kernels of all families and turns a job into a prepared program.
#include "runtime/cpu/backend/backend.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/memory.h"
#include "runtime/cpu/backend/bound_kernel.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/backend/program.h"
#include "runtime/cpu/backend/sums.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"
#include "runtime/plan/model/shards.h"

namespace flow::cpu {
namespace {

using Family = std::span<const KernelEntry> (*)();

std::vector<KernelEntry> kernels_of(std::initializer_list<Family> families) {
  std::vector<KernelEntry> kernels;
  for (const Family family : families)
    kernels.insert(kernels.end(), family().begin(), family().end());
  return kernels;
}

/// Returns the number of bytes that a program will allocate.
size_t bytes_needed(const plan::Job& job, const exec::MemoryReport& report,
                    const exec::PrepareOptions& options) {
  size_t outputs = 0;
  for (size_t i = 0; i < options.deliverables.size(); ++i) {
    const plan::TensorId id = options.deliverables[i];
    if (!id.valid()) continue;
    outputs += exec::whole_bytes_of(job, job[id]);
    if (i < options.in_parts.size() && options.in_parts[i])
      outputs += exec::bytes_of(job[id]) * static_cast<size_t>(plan::shards_of(job));
  }
  return report.variables + report.arena +
         report.inputs * std::max<size_t>(1, options.input_slots) +
         outputs * std::max<size_t>(1, options.output_slots);
}

/// Adds sums to the report; they are stored at the end of the arena. `gathered` is the number of
/// bytes that kernels gather from all ranks in a call.
void add_sums(const Sums& sums, size_t gathered, const exec::Collectives* ranks,
              exec::MemoryReport& report) {
  const auto add = [&](const char* name, size_t bytes) {
    report.arena += bytes;
    if (bytes > 0) report.at_peak.push_back({name, bytes});
  };
  if (sums.shards) add("sums over shards", sums.shards->bytes());
  if (sums.ranks) add("sums over ranks", sums.ranks->bytes());
  if (sums.ranks) {
    const auto size = static_cast<size_t>(ranks->size());
    report.sent = sums.ranks->bytes_sent() + gathered * (size - 1) / size;
  }
  std::ranges::stable_sort(report.at_peak, std::greater<>{}, &exec::MemoryReport::Holder::bytes);
}

/// Prepares a kernel, and fails if memory ran out meanwhile. oneDNN would otherwise choose another
/// implementation, whose results differ.
BoundKernel prepare_with_memory(const BindContext& context, const plan::Step& step) {
  errno = 0;
  const auto out_of_memory = [] { return errno == ENOMEM; };
  try {
    BoundKernel kernel = bind_kernel(context, step);
    if (!out_of_memory()) return kernel;
  } catch (const RunError&) {
    if (!out_of_memory()) throw;
  }
  throw std::bad_alloc();
}

class CpuBackend : public exec::Backend {
 public:
  explicit CpuBackend(std::span<const KernelEntry> kernels) : kernels_(kernels) {
    catch_writes_without_memory();
  }

  std::string device() const override { return "cpu"; }
  std::string instruction_set() const override { return cpu::instruction_set(); }
  std::map<std::string, std::string> libraries() const override {
    std::map<std::string, std::string> versions{{"onednn", onednn_version()}};
    if (!products_.empty()) versions["products"] = products_;
    return versions;
  }

  exec::HostMemory host_memory(size_t bytes) override {
    return {AlignedBytes(bytes, true).release(), [](std::byte* memory) { std::free(memory); }};
  }

  bool runs_shards() const override { return true; }
  bool runs_ranks() const override { return true; }

  std::unique_ptr<exec::Program> prepare(const plan::Job& job,
                                         const exec::PrepareOptions& options) override {
    if (job.precision == "tf32")
      throw RequestError(fmt::format("{}: job `{}` has precision `tf32`, which requires a GPU",
                                     job.where, job.name),
                         "write `precision: float32`");
    if (const auto low_precision = plan::low_precision_of(job.precision))
      products_ = describe_products(*low_precision);
    const SingleThreadedLibraries single;  // kernels create their primitives for one thread each
    const size_t available = available_memory();
    exec::check_tensors_fit(job, available, "memory");
    const int threads = choose_threads(job, options.threads);
    const std::vector<Layout> layouts = assign_layouts(job, choose_kernels(job, kernels_));
    const std::vector<plan::TensorId> kept =
        job.loop ? plan::read_in_passes(job) : std::vector<plan::TensorId>();
    const std::vector<plan::TensorId> owners = exec::share_memory(
        job, [&](plan::TensorId a, plan::TensorId b) { return lie_alike(job, layouts, a, b); },
        kept);
    Sums sums = make_sums({.job = job,
                           .owners = owners,
                           .layouts = layouts,
                           .deliverables = options.deliverables,
                           .threads = threads,
                           .ranks = options.ranks,
                           .divides = kernels_.empty()});
    const BindContext context{job,     layouts,       owners,       kernels_,
                              threads, sums.division, options.ranks};
    std::vector<BoundKernel> kernels;
    std::vector<size_t> workspaces;
    size_t gathered = 0;
    for (const plan::Step& step : job.steps) {
      kernels.push_back(exec::is_view(step, owners) ? BoundKernel{}
                                                    : prepare_with_memory(context, step));
      workspaces.push_back(kernels.back().workspace);
      gathered += kernels.back().gathered;
    }
    const std::vector<exec::VariableSlice> slices = sums.division.slots();
    const auto shared = exec::shared_variables(job, options.variable_sources);
    exec::MemoryPlan memory = exec::plan_memory({.job = job,
                                                 .owners = owners,
                                                 .workspaces = workspaces,
                                                 .kept = kept,
                                                 .shared = shared,
                                                 .transferred = options.transferred,
                                                 .slices = slices});
    add_sums(sums, gathered, options.ranks, memory.report);
    exec::check_memory_fits(job, bytes_needed(job, memory.report, options), memory.report,
                            available, "memory");
    return std::make_unique<CpuProgram>(job, options, layouts, std::move(kernels),
                                        std::move(memory), shared, std::move(sums), threads);
  }

 private:
  static std::string describe_products(DType low_precision) {
    if (multiplies_low_precision(low_precision))
      return fmt::format("in {}", name_of(low_precision));
    return fmt::format("in float32 with operands rounded to {}, without a speed-up on this CPU",
                       name_of(low_precision));
  }

  std::span<const KernelEntry> kernels_;
  std::string products_;  // how products of the last mixed-precision job are computed
};

}  // namespace

std::span<const KernelEntry> fast_kernels() {
  static const std::vector<KernelEntry> kKernels = kernels_of({
#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) fast::family,
#include "ops/families.def"
  });
  return kKernels;
}

std::span<const KernelEntry> double_kernels() {
  static const std::vector<KernelEntry> kKernels = [] {
    std::vector<KernelEntry> kernels;
    for (const KernelEntry& entry : fast_kernels())
      if (entry.float64 || entry.any_dtype)
        kernels.push_back({entry.op, entry.float64 ? entry.float64 : entry.prepare});
    return kernels;
  }();
  return kKernels;
}

std::span<const KernelEntry> reference_kernels() {
  static const std::vector<KernelEntry> kKernels = [] {
    std::vector<KernelEntry> kernels = kernels_of({
#define FLOW_LAYERS(family)
#define FLOW_ONE_LOOP(family)
#define FLOW_FAMILY(family) reference::family,
#include "ops/families.def"
    });
    for (const KernelEntry& entry : double_kernels())
      if (!find_kernel<KernelEntry>(kernels, entry.op)) kernels.push_back(entry);
    return kernels;
  }();
  return kKernels;
}

std::unique_ptr<exec::Backend> make_backend() { return make_backend({}); }

std::unique_ptr<exec::Backend> make_backend(std::span<const KernelEntry> kernels) {
  return std::make_unique<CpuBackend>(kernels);
}

}  // namespace flow::cpu
