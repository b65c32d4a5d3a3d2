// Puts the items of a call into the streams in order, with events between them that measure times.
#include "runtime/cuda/program/graph_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/random_draws/cuda_count_pass.h"
#include "runtime/base/error.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/stopwatch.h"

namespace flow::cuda {
namespace {

/// A driver for launches that loads kernels without running them, and ignores copies and clears. It
/// borrows the real driver.
class KernelLoader : public Driver {
 public:
  explicit KernelLoader(Driver& driver) : driver_(driver) {}

  const DeviceProperties& properties() const override { return driver_.properties(); }
  void launch(const KernelCall& call, Stream) override { driver_.load(call); }
  void load(const KernelCall& call) override { driver_.load(call); }
  void copy(void*, const void*, size_t, Stream) override {}
  void copy_rows(void*, const void*, const RowCopy&, Stream) override {}
  void clear(void*, size_t, Stream) override {}

  // A launch calls none of these functions.
  size_t free_memory() override { refuse(); }
  std::byte* allocate(size_t) override { refuse(); }
  void release(std::byte*) noexcept override {}
  std::byte* allocate_pinned(size_t) override { refuse(); }
  void release_pinned(std::byte*) noexcept override {}
  Stream create_stream() override { refuse(); }
  void destroy(Stream) noexcept override {}
  Event create_event() override { refuse(); }
  Event create_timed_event() override { refuse(); }
  void destroy(Event) noexcept override {}
  void record(Event, Stream) override { refuse(); }
  void wait(Stream, Event) override { refuse(); }
  void synchronize(Event) override { refuse(); }
  void synchronize(Stream) override { refuse(); }
  bool is_reached(Event) override { refuse(); }
  double milliseconds_between(Event, Event) override { refuse(); }
  void begin_capture(Stream) override { refuse(); }
  Graph end_capture(Stream) override { refuse(); }
  void launch(Graph, Stream) override { refuse(); }
  void destroy(Graph) noexcept override {}

 private:
  [[noreturn]] static void refuse() { FLOW_CHECK(false, "a launch asks for more than launches"); }

  Driver& driver_;
};

}  // namespace

bool GraphCapture::Item::runs(std::span<const uint8_t> wanted) const {
  if (constant) return false;
  return !probe || std::ranges::any_of(wanted_by, [&](size_t index) { return wanted[index] != 0; });
}

void GraphCapture::put(size_t part, std::span<const uint8_t> wanted, size_t input_slot,
                       size_t output_slot) {
  if (part == 0 && shards_ == 1) begin(wanted, input_slot, output_slot);
  const bool of_job = part < part_ends_.size();
  const std::vector<size_t>& ends = of_job ? part_ends_ : piece_ends_;
  const size_t index = of_job ? part : part - part_ends_.size();
  const size_t first = index == 0 ? 0 : ends[index - 1];
  if (!of_job && first > 0 && items_[first - 1].gather) finish_item(first - 1, wanted, output_slot);
  for (size_t i = first; i < ends[index]; ++i) put_item(i, wanted, output_slot);
  if (draws_in_passes_ && part == 1) count_pass(memory_.call(), launch_state(output_slot));
  const bool last = part + 1 == part_ends_.size() || part + 1 == parts();
  if (last && takes_fingerprints_)
    fingerprints_->copy_to_host(output_slot, launch_state(output_slot));
  join_copies();
  if (last) times_.mark(output_slot, timed_end());
}

void GraphCapture::put_item(size_t index, std::span<const uint8_t> wanted, size_t output_slot) {
  const Item& item = items_[index];
  if (item.constant) take_made(item, output_slot);
  if (!item.runs(wanted)) return;
  // A variable is delivered with its value before its update.
  if (item.updates && std::exchange(outer_copying_, false))
    driver_.wait(stream_, outer_copied_.get());
  if (is_parallel(index)) {
    launch_beside(item, output_slot);
  } else {
    if (is_parallel(index + 1)) driver_.record(forked_.get(), stream_);
    if (item.launch) item.launch(item.buffers, launch_state(output_slot));
  }
  if (!item.gather) take_made(item, output_slot);
  if (!item.gather) deliver(item.deliveries, wanted, output_slot);
  if (item.launch) times_.mark(output_slot, timed_index(index));
}

void GraphCapture::take_made(const Item& item, size_t output_slot) {
  if (takes_fingerprints_)
    fingerprints_->take_steps(item.first, item.end, launch_state(output_slot));
}

bool GraphCapture::is_parallel(size_t item) const {
  return item < items_.size() && items_[item].parallel && times_.steps().empty();
}

/// Launches the item on the branch, in parallel with the item before it. Both are done when the
/// branch has joined.
void GraphCapture::launch_beside(const Item& item, size_t output_slot) {
  driver_.wait(branch_->get(), forked_.get());
  branching_ = true;
  LaunchState state = launch_state(output_slot);
  state.stream = branch_->get();
  item.launch(item.buffers, state);
  join_branch();
}

void GraphCapture::join_branch() {
  if (!std::exchange(branching_, false)) return;
  driver_.record(branched_.get(), branch_->get());
  driver_.wait(stream_, branched_.get());
}

/// Finishes an item whose first half was put at the end of the previous piece and has been gathered
/// since.
void GraphCapture::finish_item(size_t index, std::span<const uint8_t> wanted, size_t output_slot) {
  const Item& item = items_[index];
  item.finish(item.buffers, launch_state(output_slot));
  take_made(item, output_slot);
  deliver(item.deliveries, wanted, output_slot);
  times_.mark(output_slot, timed_index(index));
}

void GraphCapture::begin(std::span<const uint8_t> wanted, size_t input_slot, size_t output_slot) {
  times_.begin(output_slot);
  copy_in(memory_.input_layout().whole, 0, input_slot);
  if (shards_ == 1) put_rows(0, input_slot, output_slot);
  if (takes_fingerprints_) {
    fingerprints_->begin(launch_state(output_slot));
    fingerprints_->take_found(false, launch_state(output_slot));
  }
  deliver(outer_, wanted, output_slot);
  times_.mark(output_slot, 0);
  outer_copying_ = std::ranges::any_of(
      outer_, [&](const CopyOut& delivery) { return wanted[delivery.index] != 0; });
  if (outer_copying_) driver_.record(outer_copied_.get(), copies_.get());
}

void GraphCapture::begin_shard(int64_t shard, size_t input_slot, size_t output_slot) {
  put_rows(shard, input_slot, output_slot);
  if (takes_fingerprints_) fingerprints_->take_found(true, launch_state(output_slot));
  times_.mark(output_slot, 0);
}

void GraphCapture::end_piece(size_t piece, std::span<const uint8_t> wanted, size_t output_slot) {
  if (piece + 1 == pieces()) return gather_variables(output_slot);
  if (piece >= shard_pieces_)
    return rank_sums_->gather(*items_[piece_ends_[piece] - 1].gather, stream_);
  const int64_t shards = end_shard_ - first_shard_;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (bucket.piece != piece || !items_[bucket.item].runs(wanted)) continue;
    join_parts(bucket.parts, shards - 1, shards, launch_state(output_slot));
    rank_sums_->exchange(i, stream_);
    times_.mark(output_slot, 1 + part_ends_[0]);
  }
}

void GraphCapture::gather_variables(size_t output_slot) {
  if (!rank_sums_->divides()) return;
  rank_sums_->gather_variables(stream_);
  times_.mark(output_slot, timed_end() - 1);
}

void GraphCapture::end_shard(int64_t shard, std::span<const uint8_t> wanted, size_t output_slot) {
  deliver(after_shard_, wanted, output_slot, shard);
  join_copies();  // the copies end before sums or the next shard overwrite their sources
  times_.mark(output_slot, timed_end());
  const bool last = shard + 1 == end_shard_;
  if (last && rank_sums_)
    rank_sums_->finish(stream_);
  else
    add_to_sums(shard - first_shard_, wanted, output_slot);
  if (last && takes_fingerprints_) fingerprints_->take_combined(launch_state(output_slot));
  times_.mark(output_slot, 1 + part_ends_[0]);
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

void GraphCapture::load_updates() {
  KernelLoader loader(driver_);
  LaunchState state{loader, stream_, memory_.call(), &memory_.fault(0)};
  for (const Item& item : items_) {
    if (!item.updates) continue;
    if (item.launch) item.launch(item.buffers, state);
    if (item.finish) item.finish(item.buffers, state);
  }
}

void GraphCapture::put_constants() {
  for (const Item& item : items_)
    if (item.constant) item.launch(item.buffers, launch_state(0));
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
      if (item.finish) item.finish(item.buffers, launch_state(0));
      driver_.synchronize(stream_);
    } catch (const RunError& error) {
      throw error.at(fmt::format("step `{}` ({})", step.name, step.where));
    }
  }
  join_parts(sums_.always, 0, end_shard_ - first_shard_, launch_state(0));
  if (draws_in_passes_) count_pass(memory_.call(), launch_state(0));
  load_updates();
}

double GraphCapture::time_fingerprints() {
  if (!fingerprints_) return 0;
  const Stopwatch stopwatch(driver_);
  LaunchState state = launch_state(0);
  state.stream = stopwatch.stream();
  const size_t shard_steps = shards_ > 1 ? part_ends_[0] : 0;
  const auto put = [&] {
    fingerprints_->begin(state);
    fingerprints_->take_found(false, state);
    for (int64_t shard = first_shard_; shards_ > 1 && shard < end_shard_; ++shard) {
      fingerprints_->take_found(true, state);
      for (size_t i = 0; i < shard_steps; ++i)
        fingerprints_->take_steps(items_[i].first, items_[i].end, state);
    }
    fingerprints_->take_combined(state);
    for (size_t i = shard_steps; i < items_.size(); ++i)
      fingerprints_->take_steps(items_[i].first, items_[i].end, state);
    return true;
  };
  return stopwatch.time(put).value_or(0) / 1000;
}

/// `shard` selects the bytes of a copy that differs from shard to shard.
void GraphCapture::copy_in(const InputLayout::Copy& copy, int64_t shard, size_t input_slot) {
  if (copy.bytes == 0) return;
  driver_.copy(
      memory_.device_inputs() + copy.to,
      memory_.host_inputs(input_slot) + copy.from + static_cast<size_t>(shard) * copy.per_shard,
      copy.bytes, stream_);
}

/// Copies the inputs that only this shard reads.
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
    join_branch();
    join_copies();
  } catch (const RunError&) {
    // The original failure is the one to report.
  }
}

void CallTimes::take(std::vector<exec::TimedStep> steps, size_t marks, size_t output_slots) {
  steps_ = std::move(steps);
  marks_.resize(output_slots);
  for (Marks& of_slot : marks_) {
    of_slot.ended.reserve(marks);
    for (size_t i = 0; i <= marks; ++i)
      of_slot.reached.emplace_back(driver_, driver_.create_timed_event());
  }
}

void CallTimes::begin(size_t output_slot) {
  if (steps_.empty()) return;
  marks_[output_slot].ended.clear();
  driver_.record(marks_[output_slot].reached[0].get(), stream_);
}

void CallTimes::mark(size_t output_slot, size_t step) {
  if (steps_.empty()) return;
  Marks& marks = marks_[output_slot];
  marks.ended.push_back(step);
  driver_.record(marks.reached[marks.ended.size()].get(), stream_);
}

/// The times that a step takes for all shards are added up.
void CallTimes::read(size_t output_slot, int64_t begin, std::span<int64_t> times) const {
  const auto& [reached, ended] = marks_[output_slot];
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

}  // namespace flow::cuda
