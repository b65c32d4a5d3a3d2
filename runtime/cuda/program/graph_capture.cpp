// Binds steps to memory once; a call is then a walk over them.
#include "runtime/cuda/program/graph_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/spec.h"
#include "runtime/base/error.h"
#include "runtime/exec/run/probes.h"

namespace flow::cuda {

using plan::TensorId;

GraphCapture::GraphCapture(Driver& driver, Stream stream, const PreparedJob& job,
                           const KeptColumns& columns, const ProgramMemory& memory,
                           std::span<const TensorId> deliverables)
    : driver_(driver),
      stream_(stream),
      columns_(columns),
      memory_(memory),
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
  end_segments(job);
  plan_deliveries(job, deliverables);
}

void GraphCapture::end_segments(const PreparedJob& job) {
  segments_.resize(job.segment_count);
  for (size_t step = 0; step < item_of_.size(); ++step)
    segments_[job.segments[step]] = item_of_[step] + 1;
  for (size_t i = 1; i < segments_.size(); ++i)
    segments_[i] = std::max(segments_[i], segments_[i - 1]);
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
  for (size_t i = 0; i < deliverables.size(); ++i) {
    if (!deliverables[i].valid()) continue;
    const size_t tensor = deliverables[i].index();
    std::vector<CopyOut>& deliveries = maker[tensor] ? maker[tensor]->deliveries : outer_;
    deliveries.push_back({i, memory_.address(prepared.places[tensor]),
                          exec::bytes_of(job.tensors[tensor]), memory_.output_layout().offsets[i]});
  }
  const std::vector<std::vector<size_t>> probes =
      exec::readers_of_probes(job, deliverables, prepared.transferred);
  for (size_t i = 0; i < job.steps.size(); ++i)
    if (job.steps[i].probe) items_[item_of_[i]].wanted_by = probes[i];
}

void GraphCapture::put(size_t segment, std::span<const uint8_t> wanted, size_t input_slot,
                       size_t output_slot) {
  const auto is_wanted = [&](size_t index) { return wanted[index] != 0; };
  const LaunchState state = launch_state(output_slot);
  if (segment == 0) begin(wanted, input_slot, output_slot);
  for (size_t i = segment == 0 ? 0 : segments_[segment - 1]; i < segments_[segment]; ++i) {
    const Item& item = items_[i];
    const size_t time = 2 + i;
    if (item.probe && std::ranges::none_of(item.wanted_by, is_wanted)) {
      mark(output_slot, time, false);
      continue;
    }
    // A variable is delivered as it was before its update.
    if (item.updates && std::exchange(outer_copying_, false))
      driver_.wait(stream_, outer_copied_.get());
    if (item.launch) item.launch(item.buffers, state);
    deliver(item.deliveries, wanted, output_slot);
    mark(output_slot, time, static_cast<bool>(item.launch));
  }
  join_copies();
  if (segment + 1 == segments_.size()) mark(output_slot, 2 + items_.size());
}

/// What comes before the first item.
void GraphCapture::begin(std::span<const uint8_t> wanted, size_t input_slot, size_t output_slot) {
  mark(output_slot, 0);
  put_inputs(input_slot, output_slot);
  deliver(outer_, wanted, output_slot);
  mark(output_slot, 1);
  outer_copying_ = std::ranges::any_of(
      outer_, [&](const CopyOut& delivery) { return wanted[delivery.index] != 0; });
  if (outer_copying_) driver_.record(outer_copied_.get(), copies_.get());
}

void GraphCapture::rehearse(const PreparedJob& job) {
  put_inputs(0, 0);
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
}

void GraphCapture::take_times(const PreparedJob& job, size_t output_slots) {
  timed_steps_.push_back({"inputs", "copy to the device", ""});
  timed_steps_.resize(1 + items_.size());
  const std::vector<plan::Step>& steps = job.grouped.job.steps;
  for (size_t i = steps.size(); i-- > 0;) {
    exec::TimedStep& timed = timed_steps_[1 + item_of_[i]];
    timed.kernel =
        timed.name.empty() ? "" : "with the following steps";  // updates, launched as one
    timed.name = steps[i].name;
    timed.op = steps[i].op.name();
    timed.segment = job.segments[i];
  }
  timed_steps_.push_back({"outputs", "wait for copies to the host", "", segments_.size() - 1});
  times_.resize(output_slots);
  for (Times& times : times_) {
    times.ran.resize(timed_steps_.size() + 1);
    for (size_t i = 0; i <= timed_steps_.size(); ++i)
      times.reached.emplace_back(driver_, driver_.create_timed_event());
  }
}

void GraphCapture::mark(size_t output_slot, size_t time, bool ran) {
  if (timed_steps_.empty()) return;
  times_[output_slot].ran[time] = ran;
  if (ran) driver_.record(times_[output_slot].reached[time].get(), stream_);
}

void GraphCapture::read_times(size_t output_slot, int64_t begin, std::span<int64_t> times) const {
  const auto& [reached, ran] = times_[output_slot];
  times[0] = begin;
  for (size_t i = 1; i < times.size(); ++i)
    times[i] = ran[i] ? begin + static_cast<int64_t>(1e6 * driver_.milliseconds_between(
                                                               reached[0].get(), reached[i].get()))
                      : times[i - 1];
}

void GraphCapture::put_inputs(size_t input_slot, size_t output_slot) {
  driver_.copy(memory_.device_inputs(), memory_.host_inputs(input_slot),
               memory_.input_layout().copied, stream_);
  for (size_t i = 0; i < columns_.size(); ++i)
    columns_.gather(i, memory_.rows(), column_inputs_[i], launch_state(output_slot));
}

void GraphCapture::deliver(std::span<const CopyOut> deliveries, std::span<const uint8_t> wanted,
                           size_t output_slot) {
  bool waits = false;
  for (const CopyOut& delivery : deliveries) {
    if (!wanted[delivery.index]) continue;
    if (!std::exchange(waits, true)) {
      driver_.record(made_.get(), stream_);
      driver_.wait(copies_.get(), made_.get());
      copying_ = true;
    }
    driver_.copy(memory_.host_outputs(output_slot) + delivery.offset, delivery.from, delivery.bytes,
                 copies_.get());
  }
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
