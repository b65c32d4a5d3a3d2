// Binds kernels to memory once, so that a call (program_calls.cpp) is a loop over them.
#include "runtime/cpu/backend/program.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/shards.h"

namespace flow::cpu {
namespace {

using exec::Pool;
using exec::TensorInfo;
using plan::TensorId;

size_t aligned(size_t bytes) { return round_up(bytes, 64); }

}  // namespace

AlignedBytes::AlignedBytes(size_t bytes, bool zero)
    : bytes_(
          static_cast<std::byte*>(std::aligned_alloc(64, std::max(aligned(bytes), size_t{64})))) {
  if (!bytes_) throw RunError(fmt::format("cannot allocate {} of memory", human_bytes(bytes)));
  if (zero) std::memset(bytes_.get(), 0, bytes);
}

CpuProgram::CpuProgram(const plan::Job& job, const exec::PrepareOptions& options,
                       std::span<const Layout> layouts, std::vector<BoundKernel> kernels,
                       exec::MemoryPlan memory, std::span<const exec::SharedVariable> shared,
                       Sums sums, int threads)
    : threads_(threads),
      workers_(threads),
      report_(std::move(memory.report)),
      shards_(plan::shards_of(job)),
      shard_steps_(job.sharding ? job.sharding->steps.index() : 0),
      ranks_(sums.ranks ? options.ranks : nullptr),
      first_shard_(ranks_ ? ranks_->rank() * shards_ / ranks_->size() : 0),
      end_shard_(ranks_ ? first_shard_ + shards_ / ranks_->size() : shards_),
      sums_(std::move(sums)),
      layouts_(layouts.begin(), layouts.end()),
      input_stride_(report_.inputs) {
  place_tensors(job, memory.tensors);
  steps_.resize(kernels.size());
  if (ranks_) ranked_.emplace(*ranks_, shards_);
  plan_deliveries(job, options);
  const size_t input_slots = std::max<size_t>(1, options.input_slots);
  const size_t output_slots = std::max<size_t>(1, options.output_slots);
  report_.inputs = input_stride_ * input_slots;
  report_.outputs = output_stride_ * output_slots;
  variables_ = AlignedBytes(report_.variables, true);
  inputs_ = AlignedBytes(report_.inputs, true);
  outputs_ = AlignedBytes(report_.outputs, true);
  arena_ = AlignedBytes(report_.arena, false);
  faults_.resize(output_slots);
  for (const exec::SharedVariable& variable : shared) {
    const auto& other = static_cast<const CpuProgram&>(*variable.program);
    FLOW_CHECK(!other.is_sliced(variable.theirs), "slot {}", variable.theirs.value);
    shared_.push_back(other.address(variable.theirs));
  }
  for (const exec::TransferredTensor& transferred : options.transferred)
    transferred_.push_back(transferred.memory);
  use_division();
  use_sums();
  segments_ = options.segments;
  if (segments_.empty()) segments_.push_back(steps_.size());
  FLOW_CHECK(shards_ == 1 || segments_.size() == 1, "{} segments", segments_.size());
  if (ranks_) streamed_ = options.streamed;
  if (options.profile) prepare_timing(job, kernels);
  bind(std::move(kernels), memory.workspaces);
  if (options.fingerprints) plan_fingerprints(job, options);
}

/// Sums are stored at the end of the arena.
void CpuProgram::use_sums() {
  if (!sums_.shards) return;
  std::byte* end = arena_.data() + report_.arena;
  if (sums_.ranks)
    sums_.ranks->use(
        end -= sums_.ranks->bytes(),
        [this](size_t entry) { return address(sums_.shards->entries()[entry].tensor); },
        [this](size_t entry) { return address(updated_[entry]); });
  sums_.shards->use(end - sums_.shards->bytes());
  const std::span<const ShardSums::Entry> entries = sums_.shards->entries();
  for (size_t i = entries.size(); i-- > 0;) {
    BoundStep& step = steps_[entries[i].step];
    step.first_sum = i;
    step.end_sum = std::max(step.end_sum, i + 1);
  }
}

void CpuProgram::use_division() {
  if (!sums_.ranks) return;
  updated_.resize(sums_.shards->entries().size());
  for (const exec::SlicedUpdate& sliced : sums_.division.updates()) {
    steps_[sliced.step()].update = &sliced;
    updated_[sliced.entry] = sliced.update.variable;
  }
  slots_.emplace(sums_.division, *ranks_);
}

void CpuProgram::place_tensors(const plan::Job& job, const std::vector<exec::Place>& places) {
  std::map<size_t, size_t> rows;  // the bytes of a shard's rows, by offset in the inputs
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    const plan::Tensor& tensor = job.tensors[i];
    const bool is_input = tensor.role == plan::Role::kInput;
    if (is_input && tensor.batch_axis >= 0 && shards_ > 1)
      rows[places[i].offset] = exec::bytes_of(tensor);
    tensors_.push_back(
        {tensor.dtype, is_input ? plan::whole_shape(job, tensor) : tensor.shape, places[i]});
  }
  for (const exec::Place& place : places)
    shard_bytes_.push_back(place.pool == Pool::kInputs ? rows[place.offset] : 0);
}

void CpuProgram::plan_deliveries(const plan::Job& job, const exec::PrepareOptions& options) {
  const std::vector<TensorId>& deliverables = options.deliverables;
  std::vector<size_t> maker(job.tensors.size(), job.steps.size());
  for (size_t i = 0; i < job.steps.size(); ++i)
    for (TensorId id : job.steps[i].outputs)
      if (id.valid()) maker[id.index()] = i;
  std::vector<std::vector<size_t>> probes =
      exec::readers_of_probes(job, deliverables, options.transferred);
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].probe = job.steps[i].probe;
    steps_[i].wanted_by = std::move(probes[i]);
  }
  for (size_t i = 0; i < deliverables.size(); ++i) {
    if (!deliverables[i].valid()) continue;
    const bool in_parts = i < options.in_parts.size() && options.in_parts[i] != 0;
    plan_delivery(job, i, deliverables[i], maker[deliverables[i].index()], in_parts);
  }
}

void CpuProgram::plan_delivery(const plan::Job& job, size_t index, TensorId id, size_t maker,
                               bool in_parts) {
  const plan::Tensor& tensor = job[id];
  const bool by_shards = maker < shard_steps_;
  std::vector<CopyOut>& copies = maker == steps_.size()        ? early_
                                 : by_shards && tensor.combine ? wholes_
                                                               : steps_[maker].deliveries;
  const size_t whole_bytes = exec::whole_bytes_of(job, tensor);
  const size_t whole = output_stride_, parts = whole + aligned(whole_bytes);
  const size_t parts_bytes = exec::bytes_of(tensor) * static_cast<size_t>(shards_);
  const int axis = by_shards ? tensor.batch_axis : plan::kNoBatch;
  const CopyOut to_whole{index, id, whole, whole_index(tensors_[id.index()].shape, axis, shards_)};
  const int64_t n = tensor.shape.elements();
  const CopyOut to_parts{index, id, parts, {n, n, n}};
  delivered_.push_back({id, whole, whole_bytes});
  output_stride_ = parts;
  if (ranks_ && axis > 0) {  // the rows of a rank are not adjacent
    copies.push_back(to_parts);
    ranked_->add(index, parts, parts_bytes, {{whole, to_whole.place, n, size_of(tensor.dtype)}});
    output_stride_ += aligned(parts_bytes);
    return;
  }
  copies.push_back(to_whole);
  const bool has_rows = by_shards || tensor.role == plan::Role::kInput;
  if (ranks_ && has_rows && tensor.batch_axis == 0) ranked_->add(index, whole, whole_bytes);
  if (!in_parts || !by_shards) return;
  steps_[maker].deliveries.push_back(to_parts);
  delivered_.back().parts = parts;
  if (ranks_) ranked_->add(index, parts, parts_bytes);
  output_stride_ += aligned(parts_bytes);
}

/// Sums over shards and ranks are timed after the steps of shards.
size_t CpuProgram::timed_index(size_t step) const {
  const size_t sums = shards_ == 1 ? 0 : ranks_ ? 3 : 1;
  return 1 + step + (step >= shard_steps_ ? sums : 0);
}

void CpuProgram::prepare_timing(const plan::Job& job, std::span<const BoundKernel> kernels) {
  timed_steps_.push_back({"inputs and variables", "deliver", ""});
  size_t segment = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    while (segments_[segment] <= i) ++segment;
    timed_steps_.push_back({job.steps[i].name, job.steps[i].op.name(),
                            kernels[i].actions.empty() ? "none: a view" : kernels[i].kernel,
                            segment, true});
  }
  std::vector<exec::TimedStep> sums;
  if (shards_ > 1) sums.push_back({"sums over shards", "combine", "flow"});
  if (ranks_) {
    sums.push_back({"waiting for other ranks", "wait", ""});
    sums.push_back({"exchange between ranks", "exchange", ranks_->library()});
  }
  timed_steps_.insert(timed_steps_.begin() + static_cast<std::ptrdiff_t>(1 + shard_steps_),
                      sums.begin(), sums.end());
  if (!sums_.division.updates().empty())
    timed_steps_.push_back({"variables from other ranks", "gather", ranks_->library()});
  clock_ = StepClock(faults_.size(), timed_steps_.size(), shards_ > 1);
}

std::byte* CpuProgram::address(TensorId tensor, size_t input_slot, int64_t shard) const {
  const exec::Place& place = tensors_[tensor.index()].place;
  switch (place.pool) {
    case Pool::kVariables:
      return variables_.data() + place.offset;
    case Pool::kInputs:
      return inputs_.data() + input_slot * input_stride_ + place.offset +
             static_cast<size_t>(shard) * shard_bytes_[tensor.index()];
    case Pool::kArena:
      return arena_.data() + place.offset;
    case Pool::kShared:
      return shared_[place.offset];
    case Pool::kTransferred:
      return transferred_[place.offset];
    case Pool::kNone:
      break;
  }
  FLOW_CHECK(false, "a tensor without memory is used");
}

/// Binds operands to addresses, and records the pointers into the inputs.
std::vector<std::byte*> CpuProgram::bind(const std::vector<Operand>& operands,
                                         std::byte* workspace) {
  std::vector<std::byte*> pointers(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    if (operand.kind == Operand::Kind::kWorkspace) pointers[i] = workspace + operand.offset;
    if (operand.kind != Operand::Kind::kTensor) continue;
    pointers[i] = address(operand.tensor) + operand.offset;
    const size_t tensor = operand.tensor.index();
    const exec::Place& place = tensors_[tensor].place;
    if (place.pool == Pool::kInputs)
      input_pointers_.push_back({&pointers[i], place.offset, shard_bytes_[tensor]});
  }
  return pointers;
}

void CpuProgram::bind(std::vector<BoundKernel> kernels, const std::vector<size_t>& workspaces) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::byte* workspace = arena_.data() + workspaces[i];
    for (Action& action : kernels[i].actions) {
      BoundAction bound;
      bound.launch = std::move(action.launch);
      bound.inputs = bind(action.inputs, workspace);
      bound.outputs = bind(action.outputs, workspace);
      for (const std::vector<Operand>& operands : action.epilogue)
        bound.epilogue.push_back(bind(operands, workspace));
      for (const std::vector<std::byte*>& operands : bound.epilogue)
        bound.epilogue_spans.emplace_back(operands);
      bound.workspace = workspace + action.workspace;
      steps_[i].actions.push_back(std::move(bound));
    }
  }
}

void CpuProgram::write_variable(TensorId variable, const ArrayView& value) {
  exec::variable_of(tensors_, variable, value);
  std::span<const std::byte> bytes(value.data, value.bytes());
  if (is_sliced(variable)) bytes = slots_->part_of(variable, bytes);
  std::ranges::copy(bytes, address(variable));
}

void CpuProgram::read_variable(TensorId variable, std::span<std::byte> into) const {
  if (is_sliced(variable)) return read_slot(variable, into);
  if (into.empty()) return;
  exec::variable_of(tensors_, variable, into.size());
  std::copy_n(address(variable), into.size(), into.data());
}

/// Reads a slot of which each rank has a slice.
void CpuProgram::read_slot(TensorId id, std::span<std::byte> into) const {
  std::byte* memory = address(id);
  if (ranks_->rank() == 0) {
    exec::variable_of(tensors_, id, into.size());
    const std::span<std::byte> own = slots_->part_of(id, into);
    std::copy_n(memory, own.size(), own.data());
    memory = into.data();
  }
  slots_->gather(id, memory);
}

std::span<std::byte> CpuProgram::input(TensorId input, size_t slot) {
  const TensorInfo& tensor = tensors_[input.index()];
  FLOW_CHECK(tensor.place.pool == Pool::kInputs, "input {}", input.value);
  return {address(input, slot), tensor.bytes()};
}

void CpuProgram::plan_fingerprints(const plan::Job& job, const exec::PrepareOptions& options) {
  const exec::FingerprintPlan::Rules rules{
      [this](size_t step) { return !steps_[step].actions.empty() && !steps_[step].probe; },
      [this](size_t step, TensorId id) { return fingerprinted_part(step, id); }};
  fingerprints_ = ProgramFingerprints(job, exec::FingerprintPlan(job, rules, options.transferred),
                                      faults_.size(), options.made);
  if (ranks_) rank_fingerprints_.emplace(*ranks_);
}

/// Returns the part of a tensor that shards combine. Each rank has only the sums of its slice of a
/// divided gradient.
exec::FingerprintPlan::Part CpuProgram::summed_part(TensorId id) const {
  for (const exec::SlicedUpdate& sliced : sums_.division.updates())
    if (address(sums_.shards->entries()[sliced.entry].tensor) == address(id))
      return {sliced.first, sliced.elements(), static_cast<size_t>(sliced.first) * sizeof(float)};
  return exec::part_of_rank({}, tensors_[id.index()].shape.elements(), ranks_->rank());
}

exec::FingerprintPlan::Part CpuProgram::fingerprinted_part(size_t step, TensorId id) const {
  using Plan = exec::FingerprintPlan;
  const TensorInfo& tensor = tensors_[id.index()];
  const int64_t elements = tensor.shape.elements();
  if (step < shard_steps_) return {first_shard_ * elements, elements, 0};
  if (!ranks_) return {0, elements, 0};
  if (step == Plan::kCombined) return summed_part(id);
  if (const size_t rows = shard_bytes_[id.index()]; rows > 0) {
    const int64_t of_shard = static_cast<int64_t>(rows / size_of(tensor.dtype));
    return {first_shard_ * of_shard, (end_shard_ - first_shard_) * of_shard,
            static_cast<size_t>(first_shard_) * rows};
  }
  return exec::part_of_rank(
      step == Plan::kFound ? sums_.division.slot(id) : sums_.division.slice(step, id), elements,
      ranks_->rank());
}

const CpuProgram::Output& CpuProgram::output_of(TensorId tensor) const {
  const auto found = std::ranges::find(delivered_, tensor, &Output::tensor);
  FLOW_CHECK(found != delivered_.end(), "tensor {} is not deliverable", tensor.value);
  return *found;
}

std::span<const std::byte> CpuProgram::delivered(TensorId tensor, size_t output_slot) const {
  const Output& output = output_of(tensor);
  return {outputs_.data() + output_slot * output_stride_ + output.offset, output.bytes};
}

std::span<const std::byte> CpuProgram::delivered_part(TensorId tensor, int64_t shard,
                                                      size_t output_slot) const {
  const Output& output = output_of(tensor);
  if (!output.parts) return delivered(tensor, output_slot);
  const size_t bytes = tensors_[tensor.index()].bytes();
  return {outputs_.data() + output_slot * output_stride_ + *output.parts +
              static_cast<size_t>(shard) * bytes,
          bytes};
}

}  // namespace flow::cpu
