// Binds steps to memory once; a call is then a walk over them.
#include "runtime/cuda/program/graph_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/whole_index.h"
#include "runtime/exec/run/probes.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {

using plan::TensorId;

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
      copies_(driver, driver.create_stream()),
      made_(driver, driver.create_event()),
      outer_copied_(driver, driver.create_event()),
      copied_(driver, driver.create_event()),
      item_of_(job.grouped.job.steps.size()) {
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
  end_parts(job);
  plan_deliveries(job, deliverables);
  place_sums(job);
  if (rank_sums_) place_buckets(job);
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
  const auto addresses = [&](const std::vector<TensorId>& ids) {
    std::vector<std::byte*> made;
    made.reserve(ids.size());
    for (TensorId id : ids)
      made.push_back(id.valid() ? memory_.address(job.places[id.index()]) : nullptr);
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
  if (const Launch& launch = job.bound.kernels[step].launch) {
    item.launch = [launch](std::span<const Buffers> buffers, const LaunchState& state) {
      launch(buffers[0], state);
    };
    item.operands.push_back(operands_of(job, step));
  }
  item_of_[step] = items_.size();
  finish_item(std::move(item));
}

void GraphCapture::add_updates(const PreparedJob& job, const UpdateGroup& group,
                               const LaunchUpdates& launch) {
  Item item;
  item.launch = launch;
  item.updates = true;
  for (size_t step = group.first; step < group.end; ++step) {
    item.operands.push_back(operands_of(job, step));
    item_of_[step] = items_.size();
  }
  finish_item(std::move(item));
}

/// From here on the operands stay where they are.
void GraphCapture::finish_item(Item item) {
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
                                       : made_by ? made_by->deliveries
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

/// The last piece ends with the last step of shards.
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
  if (piece_ends_.empty() || piece_ends_.back() != part_ends_[0])
    piece_ends_.push_back(part_ends_[0]);
}

bool GraphCapture::Item::runs(std::span<const uint8_t> wanted) const {
  return !probe || std::ranges::any_of(wanted_by, [&](size_t index) { return wanted[index] != 0; });
}

void GraphCapture::put(size_t part, std::span<const uint8_t> wanted, size_t input_slot,
                       size_t output_slot) {
  const LaunchState state = launch_state(output_slot);
  if (part == 0 && shards_ == 1) begin(wanted, input_slot, output_slot);
  const bool of_job = part < part_ends_.size();
  const std::vector<size_t>& ends = of_job ? part_ends_ : piece_ends_;
  const size_t index = of_job ? part : part - part_ends_.size();
  for (size_t i = index == 0 ? 0 : ends[index - 1]; i < ends[index]; ++i) {
    const Item& item = items_[i];
    if (!item.runs(wanted)) continue;
    // A variable is delivered as it was before its update.
    if (item.updates && std::exchange(outer_copying_, false))
      driver_.wait(stream_, outer_copied_.get());
    if (item.launch) item.launch(item.buffers, state);
    deliver(item.deliveries, wanted, output_slot);
    if (item.launch) mark(output_slot, timed_index(i));
  }
  join_copies();
  if (part + 1 == part_ends_.size()) mark(output_slot, timed_steps_.size() - 1);
}

void GraphCapture::begin(std::span<const uint8_t> wanted, size_t input_slot, size_t output_slot) {
  mark_begin(output_slot);
  copy_in(memory_.input_layout().whole, 0, input_slot);
  if (shards_ == 1) put_rows(0, input_slot, output_slot);
  deliver(outer_, wanted, output_slot);
  mark(output_slot, 0);
  outer_copying_ = std::ranges::any_of(
      outer_, [&](const CopyOut& delivery) { return wanted[delivery.index] != 0; });
  if (outer_copying_) driver_.record(outer_copied_.get(), copies_.get());
}

void GraphCapture::begin_shard(int64_t shard, size_t input_slot, size_t output_slot) {
  put_rows(shard, input_slot, output_slot);
  mark(output_slot, 0);
}

void GraphCapture::end_piece(size_t piece, std::span<const uint8_t> wanted, size_t output_slot) {
  const int64_t shards = end_shard_ - first_shard_;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (bucket.piece != piece || !items_[bucket.item].runs(wanted)) continue;
    join_parts(bucket.parts, shards - 1, shards, launch_state(output_slot));
    rank_sums_->exchange(i, stream_);
    mark(output_slot, 1 + part_ends_[0]);
  }
}

void GraphCapture::end_shard(int64_t shard, std::span<const uint8_t> wanted, size_t output_slot) {
  deliver(after_shard_, wanted, output_slot, shard);
  join_copies();  // before sums or the next shard take the place of what is copied
  mark(output_slot, timed_steps_.size() - 1);
  const bool last = shard + 1 == end_shard_;
  if (last && rank_sums_)
    rank_sums_->finish(stream_);
  else
    add_to_sums(shard - first_shard_, wanted, output_slot);
  mark(output_slot, 1 + part_ends_[0]);
  if (last) deliver(combined_, wanted, output_slot);
}

void GraphCapture::add_to_sums(int64_t shard, std::span<const uint8_t> wanted, size_t output_slot) {
  const LaunchState state = launch_state(output_slot);
  const int64_t shards = end_shard_ - first_shard_;
  join_parts(sums_.always, shard, shards, state);
  for (size_t i = 0; i < sums_.probes.size(); ++i)
    if (items_[sums_.probes[i]].runs(wanted))
      join_parts({&sums_.of_probes[i], 1}, shard, shards, state);
}

void GraphCapture::rehearse(const PreparedJob& job) {
  copy_in(memory_.input_layout().whole, 0, 0);
  put_rows(0, 0, 0);
  for (size_t i = 0; i < item_of_.size(); ++i) {
    const Item& item = items_[item_of_[i]];
    if (!item.launch || item.updates) continue;
    const plan::Step& step = job.grouped.job.steps[i];
    try {
      item.launch(item.buffers, launch_state(0));
      driver_.synchronize(stream_);
    } catch (const RunError& error) {
      throw error.at(fmt::format("step `{}` ({})", step.name, step.where));
    }
  }
  join_parts(sums_.always, 0, end_shard_ - first_shard_, launch_state(0));
}

/// Sums over shards come behind the items of shards.
size_t GraphCapture::timed_index(size_t item) const {
  return 1 + item + (shards_ > 1 && item >= part_ends_[0] ? 1 : 0);
}

void GraphCapture::take_times(const PreparedJob& job, size_t output_slots) {
  timed_steps_.resize(1 + items_.size());
  timed_steps_[0] = {"inputs", "copy to the device", ""};
  const size_t of_shards = shards_ > 1 ? part_ends_[0] : 0;
  if (shards_ > 1)
    timed_steps_.insert(
        timed_steps_.begin() + static_cast<std::ptrdiff_t>(1 + of_shards),
        {rank_sums_ ? "sums over shards and ranks" : "sums over shards", "combine", ""});
  const std::vector<plan::Step>& steps = job.grouped.job.steps;
  for (size_t i = steps.size(); i-- > 0;) {
    exec::TimedStep& timed = timed_steps_[timed_index(item_of_[i])];
    timed.kernel =
        timed.name.empty() ? "" : "with the following steps";  // updates, launched as one
    timed.name = steps[i].name;
    timed.op = steps[i].op.name();
    timed.segment = shards_ > 1 ? 0 : job.parts[i];
  }
  timed_steps_.push_back(
      {"outputs", "wait for copies to the host", "", shards_ > 1 ? 0 : part_ends_.size() - 1});
  // A shard's items, with inputs, outputs and sums of its own; inputs and outputs of a call.
  const auto shards = static_cast<size_t>(end_shard_ - first_shard_);
  const size_t marks = shards * (shards_ > 1 ? of_shards + 3 : 0) + buckets_.size() +
                       (items_.size() - of_shards) + 2;
  times_.resize(output_slots);
  for (Times& times : times_) {
    times.ended.reserve(marks);
    for (size_t i = 0; i <= marks; ++i)
      times.reached.emplace_back(driver_, driver_.create_timed_event());
  }
}

void GraphCapture::mark_begin(size_t output_slot) {
  if (timed_steps_.empty()) return;
  times_[output_slot].ended.clear();
  driver_.record(times_[output_slot].reached[0].get(), stream_);
}

void GraphCapture::mark(size_t output_slot, size_t timed_step) {
  if (timed_steps_.empty()) return;
  Times& times = times_[output_slot];
  times.ended.push_back(timed_step);
  driver_.record(times.reached[times.ended.size()].get(), stream_);
}

/// What steps take on all shards is added up.
void GraphCapture::read_times(size_t output_slot, int64_t begin, std::span<int64_t> times) const {
  const auto& [reached, ended] = times_[output_slot];
  std::ranges::fill(times, 0);
  int64_t before = 0;
  for (size_t i = 0; i < ended.size(); ++i) {
    const double passed = driver_.milliseconds_between(reached[0].get(), reached[i + 1].get());
    const auto now = static_cast<int64_t>(1e6 * passed);
    times[1 + ended[i]] += now - std::exchange(before, now);
  }
  times[0] = begin;
  std::partial_sum(times.begin(), times.end(), times.begin());
}

/// `shard`: of what each shard has its own of.
void GraphCapture::copy_in(const InputLayout::Copy& copy, int64_t shard, size_t input_slot) {
  if (copy.bytes == 0) return;
  driver_.copy(
      memory_.device_inputs() + copy.to,
      memory_.host_inputs(input_slot) + copy.from + static_cast<size_t>(shard) * copy.per_shard,
      copy.bytes, stream_);
}

/// What a shard reads alone.
void GraphCapture::put_rows(int64_t shard, size_t input_slot, size_t output_slot) {
  for (const InputLayout::Copy& copy : memory_.input_layout().of_shards)
    copy_in(copy, shard, input_slot);
  for (size_t i = 0; i < columns_.size(); ++i)
    columns_.gather(i, memory_.rows(), shard, column_inputs_[i], launch_state(output_slot));
}

void GraphCapture::deliver(std::span<const CopyOut> deliveries, std::span<const uint8_t> wanted,
                           size_t output_slot, int64_t shard) {
  bool waits = false;
  for (const CopyOut& delivery : deliveries) {
    if (!wanted[delivery.index] || (shard > first_shard_ && delivery.per_shard == 0)) continue;
    if (!std::exchange(waits, true)) {
      driver_.record(made_.get(), stream_);
      driver_.wait(copies_.get(), made_.get());
      copying_ = true;
    }
    copy_to_host(delivery, memory_.host_outputs(output_slot) + delivery.offset +
                               static_cast<size_t>(shard) * delivery.per_shard);
  }
}

void GraphCapture::copy_to_host(const CopyOut& delivery, std::byte* to) {
  const RowCopy& rows = delivery.rows;
  if (rows.rows == 1)
    driver_.copy(to, delivery.from, rows.bytes, copies_.get());
  else
    driver_.copy_rows(to, delivery.from, rows, copies_.get());
}

void GraphCapture::join_copies() {
  outer_copying_ = false;
  if (!std::exchange(copying_, false)) return;
  driver_.record(copied_.get(), copies_.get());
  driver_.wait(stream_, copied_.get());
}

void GraphCapture::abandon() {
  try {
    join_copies();
  } catch (const RunError&) {
    // The failure that led here is the one to tell.
  }
}

}  // namespace flow::cuda
