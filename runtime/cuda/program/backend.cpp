// The CUDA backend, which turns a job into a prepared program.
#include "runtime/cuda/program/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "ops/recurrent/cuda_library.h"
#include "runtime/base/error.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/cuda/program/program.h"
#include "runtime/cuda/program/steps.h"
#include "runtime/cuda/program/tuning.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

constexpr const char* kMemory = "GPU memory";

/// Any two tensors have the same layout, because every tensor is in C order.
bool lie_alike(TensorId, TensorId) { return true; }

/// Returns the result of f, and adds the job's name to a RunError that it throws.
template <typename F>
auto named(const plan::Job& job, F f) {
  try {
    return f();
  } catch (const RunError& error) {
    throw error.at(fmt::format("{}: job `{}`", job.where, job.name));
  }
}

/// Places sums and fingerprints at the end of the arena.
void add_sums(PreparedJob& prepared, const exec::Collectives* ranks, exec::MemoryReport& report) {
  const auto add = [&](const char* name, size_t bytes) {
    if (bytes > 0) report.at_peak.push_back({name, bytes});
    return std::exchange(report.arena, report.arena + bytes);
  };
  prepared.sums_offset = add("sums over shards", prepared.sums.bytes);
  prepared.rank_sums_offset = add("sums over ranks", prepared.rank_sums.bytes);
  prepared.fingerprints_offset = add("fingerprints", fingerprint_bytes(prepared.fingerprints));
  if (ranks) {
    const auto size = static_cast<size_t>(ranks->size());
    report.sent = exec::bytes_sent(prepared.rank_sums.buckets, ranks->size()) +
                  prepared.bound.gathered() * (size - 1) / size;
  }
  std::ranges::stable_sort(report.at_peak, std::greater<>{}, &exec::MemoryReport::Holder::bytes);
}

/// Plans the shards of this rank, the data that it exchanges, and the slices that it updates.
/// `visible` lists tensors that must be whole.
void plan_ranks(exec::Collectives* ranks, std::span<const TensorId> visible,
                PreparedJob& prepared) {
  const plan::Job& job = prepared.grouped.job;
  const int64_t size = ranks ? ranks->size() : 1, here = plan::shards_of(job) / size;
  prepared.first_shard = ranks ? ranks->rank() * here : 0;
  prepared.end_shard = prepared.first_shard + here;
  prepared.sums = plan_sums(job, prepared.owners, size);
  if (!ranks) return;
  std::vector<TensorId> entries;
  for (const SumPlan::Entry& entry : prepared.sums.entries) entries.push_back(entry.tensor);
  std::vector<exec::SlicedUpdate> updates =
      exec::find_sliced_updates(job, prepared.owners, visible, entries);
  prepared.rank_sums = plan_rank_sums(job, prepared.sums, updates, *ranks);
  prepared.division =
      exec::Division(job, std::move(updates), prepared.rank_sums.buckets, ranks->rank());
}

/// Returns the tensors that are transferred to or from another device.
std::vector<TensorId> transferred_tensors(const exec::PrepareOptions& options) {
  std::vector<TensorId> ids;
  for (const exec::TransferredTensor& transferred : options.transferred)
    ids.push_back(transferred.tensor);
  return ids;
}

/// Returns the loop with the step numbers of a job whose steps run in `parts`.
plan::Loop renumbered(plan::Loop loop, std::span<const size_t> parts) {
  loop.first = plan::StepId(static_cast<size_t>(std::ranges::count(parts, size_t{0})));
  loop.end = plan::StepId(parts.size() - static_cast<size_t>(std::ranges::count(parts, size_t{2})));
  return loop;
}

class CudaBackend : public exec::Backend {
 public:
  CudaBackend(std::unique_ptr<Driver> driver, std::unique_ptr<Libraries> libraries,
              const NcclCalls& (*open_nccl)())
      : driver_(std::move(driver)), libraries_(std::move(libraries)), open_nccl_(open_nccl) {}

  std::string device() const override {
    return fmt::format("cuda:{} {}", driver_->properties().index, driver_->properties().name);
  }
  std::string instruction_set() const override {
    return fmt::format("sm_{}{}", driver_->properties().major, driver_->properties().minor);
  }
  bool asynchronous() const override { return true; }
  bool runs_shards() const override { return true; }
  bool runs_ranks() const override { return true; }
  std::map<std::string, std::string> libraries() const override {
    std::map<std::string, std::string> versions = libraries_->versions();
    versions["cuda"] = driver_->properties().runtime_version;
    versions["driver"] = driver_->properties().driver_version;
    if (communicator_) versions["nccl"] = communicator_->version();
    return versions;
  }

  exec::HostMemory host_memory(size_t bytes) override {
    return {driver_->allocate_pinned(bytes),
            [this](std::byte* memory) { driver_->release_pinned(memory); }};
  }

  std::unique_ptr<exec::Program> prepare(const plan::Job& job,
                                         const exec::PrepareOptions& options) override {
    FLOW_CHECK(!options.made, "faults are planted on the CPU");
    if (options.ranks) open_communicator(job, *options.ranks);
    exec::check_tensors_fit(job, available_memory(job), kMemory);
    std::optional<Tuner> tuner;
    if (options.tuning)
      named(job, [&] { tuner.emplace(*options.tuning, device_text(), *libraries_, *driver_); });
    const KernelSource source{*driver_, tuner ? tuner->libraries : *libraries_, options.fuse,
                              tuner ? &tuner->timer : nullptr};
    return prepare(job, options, source, most_workspace());
  }

 private:
  /// `recurrent_workspace` is as in lower_recurrent. If the job does not fit with the library's
  /// recurrent layers, which need memory besides their workspaces, it is prepared without them.
  std::unique_ptr<exec::Program> prepare(const plan::Job& job, const exec::PrepareOptions& options,
                                         const KernelSource& source, size_t recurrent_workspace) {
    // Copies to the host run in parallel with later work, so the tensors that they read are kept.
    std::vector<TensorId> kept = options.deliverables;
    std::erase(kept, TensorId());
    const std::vector<TensorId> transferred = transferred_tensors(options);
    std::vector<TensorId> visible = kept;
    visible.insert(visible.end(), transferred.begin(), transferred.end());
    plan::Job plain = job;
    plain.loop.reset();  // the steps have other numbers at the end
    Versions versions;
    plan::Job made = move_channels_last(lower_epilogues(plain), kept, transferred, &versions);
    const auto parts_of_made = [&] { return parts_of(job, options.segments, made); };
    named(job, [&] {
      if (options.fuse) {
        made = lower_recurrent(made, parts_of_made(), visible, recurrent_workspace,
                               source.libraries, source.driver);
        made = fuse_residuals(made, visible);
        made = fuse_gradients(made, parts_of_made(), visible, source.libraries, source.driver);
      }
      made = lower_attention(made, visible, most_workspace(), source.libraries, &versions);
    });
    Grouped grouped = group_updates(made);
    const std::vector<size_t> parts = parts_of(job, options.segments, grouped.job);
    if (job.loop) {
      grouped.job.loop = renumbered(*job.loop, parts);
      const std::vector<TensorId> read = plan::read_in_passes(grouped.job);
      kept.insert(kept.end(), read.begin(), read.end());
    }
    Constants constants = find_constants(grouped.job);
    kept.insert(kept.end(), constants.tensors.begin(), constants.tensors.end());
    PreparedJob prepared{
        .grouped = grouped,
        .transferred = options.transferred,
        .parts = parts,
        .part_count = job.sharding ? 2 : std::max<size_t>(1, options.segments.size()),
        .constants = std::move(constants),
        .versions = std::move(versions)};
    prepared.owners = exec::share_memory(grouped.job, lie_alike, kept);
    prepared.parallel = find_parallel_steps(grouped.job, prepared.owners, prepared.parts);
    plan_ranks(options.ranks, visible, prepared);
    if (options.fingerprints)
      prepared.fingerprints = plan_fingerprints(prepared, options.ranks, job.tensors.size());
    prepared.shared = exec::shared_variables(grouped.job, options.variable_sources);
    exec::MemoryReport report = choose_kernels(options, kept, source, prepared);
    if (recurrent_workspace > 0 && report.total() > capacity(options) &&
        std::ranges::any_of(grouped.job.steps, is_library_layer))
      return prepare(job, options, source, 0);
    // Less memory may be available now, because the libraries have allocated some.
    const bool keeps = account(grouped.job, options, prepared.fingerprints.tensors().size(),
                               available_memory(job), report);
    return named(job, [&] {
      return std::make_unique<CudaProgram>(*driver_, std::move(prepared), std::move(report),
                                           options, keeps,
                                           options.ranks ? communicator_.get() : nullptr);
    });
  }

  /// Describes what choices of algorithms depend on besides the computation.
  std::string device_text() const {
    const DeviceProperties& device = driver_->properties();
    std::string text = fmt::format("{}, {}.{}, {} multiprocessors, {} bytes, driver {}, runtime {}",
                                   device.name, device.major, device.minor, device.multiprocessors,
                                   device.memory, device.driver_version, device.runtime_version);
    for (const auto& [library, version] : libraries_->versions())
      text += fmt::format(", {} {}", library, version);
    return text;
  }

  /// Returns the free memory minus a margin for kernels, which are loaded at their first use, and
  /// for graphs, which are also stored on the device.
  size_t available_memory(const plan::Job& job) {
    const size_t free = named(job, [&] { return driver_->free_memory(); });
    return free - std::min(margin(), free / 4);
  }

  size_t margin() const {
    constexpr size_t kLeast = 256 << 20;
    return std::max(kLeast, driver_->properties().memory / 50);
  }

  /// Returns the memory that is available to the job, besides the programs that share variables
  /// with it, if no other process uses the device.
  size_t capacity(const exec::PrepareOptions& options) const {
    const size_t memory = driver_->properties().memory;
    size_t taken = std::min(margin(), memory / 4);
    for (const exec::VariableSource& source : options.variable_sources)
      taken += source.program->memory().total() - source.program->memory().columns;
    return memory - std::min(memory, taken);
  }

  /// Returns the limit of a workspace in bytes: a quarter of the device's memory.
  size_t most_workspace() const { return driver_->properties().memory / 4; }

  /// Chooses the kernels of the steps and places everything in memory. If the job would not fit,
  /// workspaces are limited to the memory that its tensors leave. This changes the choice of
  /// kernels, which never depends on the memory that other processes currently use.
  exec::MemoryReport choose_kernels(const exec::PrepareOptions& options,
                                    std::span<const TensorId> kept, const KernelSource& source,
                                    PreparedJob& prepared) {
    const size_t most = most_workspace();
    exec::MemoryReport report = choose_kernels(options, kept, source, most, prepared);
    const size_t capacity = this->capacity(options);
    if (report.total() <= capacity) return report;
    const size_t tensors =
        place_all(options, kept, std::vector<size_t>(prepared.grouped.job.steps.size()), prepared)
            .total();
    const size_t left = capacity - std::min(capacity, tensors);
    if (std::ranges::none_of(report.library_steps,
                             [&](const auto& step) { return step.workspace > left; }))
      return choose_kernels(options, kept, source, most, prepared);
    report = choose_kernels(options, kept, source, left, prepared);
    report.workspace_limit = left;
    return report;
  }

  exec::MemoryReport choose_kernels(const exec::PrepareOptions& options,
                                    std::span<const TensorId> kept, const KernelSource& source,
                                    size_t most_workspace, PreparedJob& prepared) {
    const size_t rank = options.ranks ? static_cast<size_t>(options.ranks->rank()) : 0;
    prepared.bound = bind_kernels(prepared.grouped, prepared.owners, {prepared.division, rank},
                                  most_workspace, source);
    exec::MemoryReport report =
        place_all(options, kept, prepared.bound.workspaces(prepared.grouped.updates), prepared);
    report.library_steps = list_library_steps(prepared.grouped.job, prepared.bound);
    return report;
  }

  /// `workspaces` is indexed by step, in bytes.
  exec::MemoryReport place_all(const exec::PrepareOptions& options, std::span<const TensorId> kept,
                               const std::vector<size_t>& workspaces, PreparedJob& prepared) const {
    const std::vector<exec::VariableSlice> slices = prepared.division.slots();
    exec::MemoryPlan memory = exec::plan_memory({.job = prepared.grouped.job,
                                                 .owners = prepared.owners,
                                                 .workspaces = workspaces,
                                                 .kept = kept,
                                                 .constants = prepared.constants.tensors,
                                                 .shared = prepared.shared,
                                                 .transferred = options.transferred,
                                                 .slices = slices,
                                                 .alignment = kAlignment,
                                                 .parallel = prepared.parallel});
    prepared.places = std::move(memory.tensors);
    prepared.workspaces = std::move(memory.workspaces);
    add_sums(prepared, options.ranks, memory.report);
    return std::move(memory.report);
  }

  /// Opens the communicator that all programs share.
  void open_communicator(const plan::Job& job, exec::Collectives& ranks) {
    if (communicator_) return;
    communicator_ =
        named(job, [&] { return std::make_unique<Communicator>(open_nccl_(), *driver_, ranks); });
  }

  /// Completes the report. Returns true if the columns should be kept on the device: they may use
  /// half of the memory that the job leaves.
  bool account(const plan::Job& job, const exec::PrepareOptions& options, size_t fingerprints,
               size_t available, exec::MemoryReport& report) const {
    const ProgramMemory::Sizes sizes{report.variables, report.arena,
                                     std::max<size_t>(1, options.input_slots),
                                     std::max<size_t>(1, options.output_slots)};
    std::vector<TensorId> column_inputs;
    for (const exec::ColumnInput& column : options.columns) column_inputs.push_back(column.input);
    const InputLayout with_columns(job, column_inputs);
    exec::check_memory_fits(job, ProgramMemory::device_bytes(sizes, with_columns), report,
                            available, kMemory);
    const size_t left = available - ProgramMemory::device_bytes(sizes, with_columns);
    const size_t columns = KeptColumns::bytes(job, options.columns);
    const bool keeps = !options.columns.empty() && columns <= left / 2;
    const InputLayout inputs = keeps ? with_columns : InputLayout(job, {});
    report.columns = keeps ? columns : 0;
    report.inputs = inputs.bytes;
    report.pinned =
        ProgramMemory::pinned_bytes(sizes, inputs, OutputLayout(job, options, fingerprints));
    return keeps;
  }

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Libraries> libraries_;
  const NcclCalls& (*open_nccl_)();
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace

std::unique_ptr<exec::Backend> make_backend(std::unique_ptr<Driver> driver,
                                            std::unique_ptr<Libraries> libraries,
                                            const NcclCalls& (*open_nccl)()) {
  return std::make_unique<CudaBackend>(std::move(driver), std::move(libraries), open_nccl);
}

}  // namespace flow::cuda
