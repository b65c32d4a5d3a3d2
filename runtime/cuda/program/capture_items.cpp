// Binds steps to memory once. Builds the items of a call and plans the work between them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/core/spec.h"
#include "runtime/base/index_maps.h"
#include "runtime/base/text.h"
#include "runtime/cuda/program/graph_capture.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {

using plan::TensorId;

namespace {

std::optional<ProgramFingerprints> fingerprints_of(const PreparedJob& job,
                                                   const ProgramMemory& memory) {
  if (job.fingerprints.tensors().empty()) return {};
  return ProgramFingerprints(job, memory);
}

bool draws_in_passes(const plan::Job& job) {
  return job.loop && std::ranges::any_of(job.steps, [](const plan::Step& step) {
           return step.attributes.has("consumer");
         });
}

}  // namespace

GraphCapture::GraphCapture(Driver& driver, Stream stream, const PreparedJob& job,
                           const KeptColumns& columns, const ProgramMemory& memory,
                           std::span<const TensorId> deliverables, RankSums* rank_sums)
    : driver_(driver),
      stream_(stream),
      columns_(columns),
      memory_(memory),
      shards_(plan::shards_of(job.grouped.job)),
      first_shard_(job.first_shard),
      end_shard_(job.end_shard),
      rank_sums_(rank_sums),
      draws_in_passes_(draws_in_passes(job.grouped.job)),
      fingerprints_(fingerprints_of(job, memory)),
      copies_(driver, driver.create_stream()),
      made_(driver, driver.create_event()),
      outer_copied_(driver, driver.create_event()),
      copied_(driver, driver.create_event()),
      item_of_(job.grouped.job.steps.size()),
      times_(driver, stream) {
  for (TensorId input : columns.inputs())
    column_inputs_.push_back(memory.address(job.places[input.index()]));
  const std::vector<UpdateGroup>& groups = job.grouped.updates;
  size_t group = 0;
  for (size_t i = 0; i < item_of_.size(); ++i) {
    if (group == groups.size() || groups[group].first != i) {
      add_step(job, i);
      continue;
    }
    add_updates(job, groups[group], job.bound.updates[group]);
    i = groups[group++].end - 1;
  }
  add_branch(job);
  end_parts(job);
  plan_deliveries(job, deliverables);
  place_sums(job);
  if (!rank_sums_) return;
  place_buckets(job);
  cut_pieces();
}

/// The branch is created last, and only for jobs with parallel steps.
void GraphCapture::add_branch(const PreparedJob& job) {
  for (size_t step = 0; step < job.parallel.size(); ++step)
    if (job.parallel[step]) items_[item_of_[step]].parallel = true;
  if (std::ranges::none_of(items_, &Item::parallel)) return;
  branch_.emplace(driver_, driver_.create_stream());
  forked_ = OwnedEvent(driver_, driver_.create_event());
  branched_ = OwnedEvent(driver_, driver_.create_event());
}

void GraphCapture::end_parts(const PreparedJob& job) {
  part_ends_.resize(job.part_count);
  for (size_t step = 0; step < item_of_.size(); ++step)
    part_ends_[job.parts[step]] = item_of_[step] + 1;
  for (size_t i = 1; i < part_ends_.size(); ++i)
    part_ends_[i] = std::max(part_ends_[i], part_ends_[i - 1]);
}

GraphCapture::Operands GraphCapture::operands_of(const PreparedJob& job, size_t at) const {
  const plan::Step& step = job.grouped.job.steps[at];
  const auto address = [&](TensorId id) {
    return memory_.address(job.places[id.index()]) + job.division.slice(at, id).offset;
  };
  const auto addresses = [&](const std::vector<TensorId>& ids) {
    std::vector<std::byte*> made;
    made.reserve(ids.size());
    for (TensorId id : ids) made.push_back(id.valid() ? address(id) : nullptr);
    return made;
  };
  Operands operands{addresses(step.inputs),
                    addresses(step.outputs),
                    {},
                    {},
                    memory_.arena() + job.workspaces[at]};
  for (const plan::EpilogueOp& fused : step.epilogue)
    operands.epilogue.push_back(addresses(fused.operands));
  for (const std::vector<std::byte*>& in_epilogue : operands.epilogue)
    operands.epilogue_spans.emplace_back(in_epilogue);
  return operands;
}

namespace {

LaunchUpdates of_one(const Launch& launch) {
  return [launch](std::span<const Buffers> buffers, const LaunchState& state) {
    launch(buffers[0], state);
  };
}

bool writes_variable(const plan::Job& job, const plan::Step& step) {
  return !step.op->view && std::ranges::any_of(step.outputs, [&](TensorId id) {
    return id.valid() && job[id].alias.valid() && job[job[id].alias].role == plan::Role::kVariable;
  });
}

}  // namespace

void GraphCapture::add_step(const PreparedJob& job, size_t step) {
  Item item;
  item.probe = job.grouped.job.steps[step].probe;
  item.updates = writes_variable(job.grouped.job, job.grouped.job.steps[step]);
  item.constant = job.constants.steps[step] != 0;
  item.first = step, item.end = step + 1;
  const Kernel& kernel = job.bound.kernels[step];
  if (kernel.launch) {
    item.launch = of_one(kernel.launch);
    item.operands.push_back(operands_of(job, step));
  }
  if (kernel.finish) {
    item.finish = of_one(kernel.finish);
    add_gather(item, kernel.gather);
  }
  item_of_[step] = items_.size();
  keep_item(std::move(item));
}

void GraphCapture::add_updates(const PreparedJob& job, const UpdateGroup& group,
                               const Updates& updates) {
  Item item;
  item.launch = updates.launch;
  item.updates = true;
  item.first = group.first, item.end = group.end;
  for (size_t step = group.first; step < group.end; ++step) {
    item.operands.push_back(operands_of(job, step));
    item_of_[step] = items_.size();
  }
  if (updates.finish) {
    item.finish = updates.finish;
    add_gather(item, updates.gather);
  }
  keep_item(std::move(item));
}

/// Gathers in the workspace of the item's first step.
void GraphCapture::add_gather(Item& item, const RankGather& gather) const {
  item.gather = rank_sums_->add_gather(gather, item.operands[0].workspace);
}

/// Stores the item. Its operands do not move afterwards, so buffers can refer to them.
void GraphCapture::keep_item(Item item) {
  for (const Operands& o : item.operands)
    item.buffers.push_back({o.inputs, o.outputs, o.epilogue_spans, o.workspace});
  items_.push_back(std::move(item));
}

void GraphCapture::plan_deliveries(const PreparedJob& prepared,
                                   std::span<const TensorId> deliverables) {
  const plan::Job& job = prepared.grouped.job;
  std::vector<Item*> maker(job.tensors.size());
  for (size_t i = 0; i < job.steps.size(); ++i)
    for (TensorId id : job.steps[i].outputs)
      if (id.valid()) maker[id.index()] = &items_[item_of_[i]];
  const std::vector<bool> by_shards = tensors_of_shards(job);
  for (size_t i = 0; i < deliverables.size(); ++i) {
    const TensorId id = deliverables[i];
    if (!id.valid()) continue;
    const bool of_shards = by_shards[id.index()];
    Item* const made_by = maker[id.index()];
    std::vector<CopyOut>& deliveries = of_shards ? job[id].combine ? combined_ : after_shard_
                                       : made_by && !made_by->constant ? made_by->deliveries
                                                                       : outer_;
    const CopyOut whole = copy_out(prepared, i, id, of_shards);
    const OutputLayout::Output& output = memory_.output_layout().outputs[i];
    if (!output.spread) deliveries.push_back(whole);
    if (const size_t bytes = output.part_bytes; output.parts)
      after_shard_.push_back({i, whole.from, *output.parts, {1, bytes, bytes}, bytes});
  }
  const std::vector<std::vector<size_t>> probes =
      exec::readers_of_probes(job, deliverables, prepared.transferred);
  for (size_t i = 0; i < job.steps.size(); ++i)
    if (job.steps[i].probe) items_[item_of_[i]].wanted_by = probes[i];
}

GraphCapture::CopyOut GraphCapture::copy_out(const PreparedJob& job, size_t index, TensorId id,
                                             bool of_shards) const {
  const plan::Tensor& tensor = job.grouped.job[id];
  const int axis = of_shards ? tensor.batch_axis : plan::kNoBatch;
  const WholeIndex place = whole_index(tensor.shape, axis, shards_);
  const auto bytes = [&](int64_t elements) {
    return static_cast<size_t>(elements) * size_of(tensor.dtype);
  };
  return {index,
          memory_.address(job.places[id.index()]),
          memory_.output_layout().outputs[index].offset,
          {static_cast<size_t>(tensor.shape.elements() / place.run), bytes(place.run),
           bytes(place.distance)},
          bytes(place.per_shard)};
}

void GraphCapture::place_sums(const PreparedJob& job) {
  for (size_t i = 0; i < job.sums.entries.size(); ++i) {
    const size_t item = item_of_[job.sums.entries[i].step];
    (items_[item].probe ? sums_.of_probes : sums_.always).push_back(part_of(job, i));
    if (items_[item].probe) sums_.probes.push_back(item);
  }
}

ShardPart GraphCapture::part_of(const PreparedJob& job, size_t index) const {
  const SumPlan::Entry& entry = job.sums.entries[index];
  const plan::Tensor& tensor = job.grouped.job[entry.tensor];
  return {tensor.dtype,
          tensor.shape.rank() == 0,
          *tensor.combine,
          tensor.shape.elements(),
          memory_.address(job.places[entry.tensor.index()]),
          memory_.arena() + job.sums_offset + entry.offset,
          entry.stride,
          rank_sums_ ? rank_sums_->total(index) : nullptr};
}

void GraphCapture::place_buckets(const PreparedJob& job) {
  for (const exec::Bucket& planned : job.rank_sums.buckets) {
    Bucket bucket{{}, 0, 0};
    for (const size_t entry : planned.tensors) {
      bucket.parts.push_back(part_of(job, entry));
      bucket.item = item_of_[job.sums.entries[entry].step];
    }
    if (piece_ends_.empty() || piece_ends_.back() != bucket.item + 1)
      piece_ends_.push_back(bucket.item + 1);
    bucket.piece = piece_ends_.size() - 1;
    buckets_.push_back(std::move(bucket));
  }
}

/// The last piece of shards ends with their last step. The work of an item after its gather belongs
/// to the next piece, so the last piece may contain nothing else.
void GraphCapture::cut_pieces() {
  if (piece_ends_.empty() || piece_ends_.back() != part_ends_[0])
    piece_ends_.push_back(part_ends_[0]);
  shard_pieces_ = piece_ends_.size();
  for (size_t i = part_ends_[0]; i < items_.size(); ++i)
    if (items_[i].gather) piece_ends_.push_back(i + 1);
  piece_ends_.push_back(items_.size());
  // The data that a piece completes is exchanged before the next piece starts.
  for (const size_t end : piece_ends_)
    if (end < items_.size()) items_[end].parallel = false;
}

/// Sums over shards are timed after the items of shards.
size_t GraphCapture::timed_index(size_t item) const {
  return 1 + item + (shards_ > 1 && item >= part_ends_[0] ? 1 : 0);
}

std::vector<exec::TimedStep> GraphCapture::list_timed_steps(const PreparedJob& job) const {
  std::vector<exec::TimedStep> timed(1 + items_.size());
  timed[0] = {"inputs", "copy to the device", ""};
  if (shards_ > 1)
    timed.insert(timed.begin() + static_cast<std::ptrdiff_t>(1 + part_ends_[0]),
                 {rank_sums_ ? "sums over shards and ranks" : "sums over shards", "combine", ""});
  const std::vector<plan::Step>& steps = job.grouped.job.steps;
  for (size_t i = steps.size(); i-- > 0;) {
    exec::TimedStep& one = timed[timed_index(item_of_[i])];
    // Several steps share an item if they are updates that are launched together.
    one.kernel = one.name.empty() ? "" : "with the following steps";
    if (const Kernel& kernel = job.bound.kernels[i]; !kernel.name.empty())
      one.kernel = fmt::format("{}, {}", kernel.name, human_bytes(kernel.workspace));
    one.name = steps[i].name;
    one.op = steps[i].op.name();
    one.segment = shards_ > 1 ? 0 : job.parts[i];
    one.of_plan = true;
  }
  if (rank_sums_ && rank_sums_->divides())
    timed.push_back({"variables from other ranks", "gather", "NCCL"});
  timed.push_back(
      {"outputs", "wait for copies to the host", "", shards_ > 1 ? 0 : part_ends_.size() - 1});
  return timed;
}

void GraphCapture::take_times(const PreparedJob& job, size_t output_slots) {
  // Counts the items of each shard with its inputs, outputs and sums; the buckets; the other items,
  // some of which are marked twice; and the inputs, outputs and variables of a call.
  const auto shards = static_cast<size_t>(end_shard_ - first_shard_);
  const size_t of_shards = shards_ > 1 ? part_ends_[0] : 0;
  const size_t marks = shards * (shards_ > 1 ? of_shards + 3 : 0) + buckets_.size() +
                       2 * (items_.size() - of_shards) + 3;
  times_.take(list_timed_steps(job), marks, output_slots);
}

}  // namespace flow::cuda
