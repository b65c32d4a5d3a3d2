// A prepared job function on a GPU.
#include "runtime/cuda/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/exec/core/profile.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

using exec::TensorInfo;
using plan::TensorId;

KeptColumns keep(Driver& driver, Stream stream, const plan::Job& job,
                 const exec::PrepareOptions& options, bool keep_columns) {
  if (!keep_columns) return {};
  return {driver, stream, job, options.columns};
}

/// Ends a capture on every exit path. A graph that was not completed is destroyed.
class Capture {
 public:
  Capture(Driver& driver, Stream stream, GraphCapture& graph_capture)
      : driver_(driver), stream_(stream), graph_capture_(graph_capture) {
    driver.begin_capture(stream);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (ended_) return;
    graph_capture_.abandon();
    try {
      driver_.destroy(driver_.end_capture(stream_));
    } catch (const RunError&) {
      // The original failure is the one to report.
    }
  }
  OwnedGraph end() {
    ended_ = true;
    return {driver_, driver_.end_capture(stream_)};
  }

 private:
  Driver& driver_;
  Stream stream_;
  GraphCapture& graph_capture_;
  bool ended_ = false;
};

}  // namespace

CudaProgram::CudaProgram(Driver& driver, PreparedJob prepared, exec::MemoryReport report,
                         const exec::PrepareOptions& options, bool keep_columns,
                         Communicator* communicator)
    : driver_(driver),
      name_(fmt::format("{}: job `{}`", prepared.grouped.job.where, prepared.grouped.job.name)),
      report_(std::move(report)),
      shards_(plan::shards_of(prepared.grouped.job)),
      first_shard_(prepared.first_shard),
      end_shard_(prepared.end_shard),
      deliverables_(options.deliverables),
      fingerprinted_(prepared.fingerprints.tensors()),
      checks_(prepared.bound.checks),
      sizes_{report_.variables, report_.arena, std::max<size_t>(1, options.input_slots),
             std::max<size_t>(1, options.output_slots)},
      stream_(driver, driver.create_stream()),
      parts_(prepared.part_count),
      segments_(shards_ > 1 ? 1 : parts_),
      columns_(keep(driver, stream_.get(), prepared.grouped.job, options, keep_columns)),
      memory_(driver, stream_.get(), sizes_, InputLayout(prepared.grouped.job, columns_.inputs()),
              OutputLayout(prepared.grouped.job, options, fingerprinted_.size()),
              addresses(prepared.shared), addresses(prepared.transferred)) {
  const plan::Job& job = prepared.grouped.job;
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    exec::Place& place = prepared.places[i];
    if (place.pool == exec::Pool::kInputs)
      place.offset = memory_.input_layout().offsets[prepared.owners[i].index()];
    tensors_.push_back({job.tensors[i].dtype, plan::whole_shape(job, job.tensors[i]), place});
  }
  for (size_t i = 0; i < sizes_.output_slots * segments_; ++i)
    done_.emplace_back(driver, driver.create_event());
  if (communicator) ranks_.emplace(driver, *communicator, prepared, options, memory_);
  graph_capture_.emplace(driver, stream_.get(), prepared, columns_, memory_, deliverables_,
                         ranks_ ? &ranks_->sums() : nullptr);
  graph_capture_->put_constants();
  driver.synchronize(stream_.get());
  fingerprint_seconds_ = graph_capture_->time_fingerprints();
  if (options.profile) {
    graph_capture_->take_times(prepared, sizes_.output_slots);
    times_.resize(sizes_.output_slots);
    for (Times& times : times_) times.ends.resize(graph_capture_->times().steps().size() + 1);
  } else if (!options.eager) {
    graph_capture_->rehearse(prepared);
    capture_forms(options.always);
  }
}

std::vector<std::byte*> CudaProgram::addresses(std::span<const exec::SharedVariable> shared) const {
  std::vector<std::byte*> made;
  for (const exec::SharedVariable& variable : shared) {
    const auto& other = static_cast<const CudaProgram&>(*variable.program);
    FLOW_CHECK(!other.is_sliced(variable.theirs), "slot {}", variable.theirs.value);
    made.push_back(other.memory_.address(other.tensors_[variable.theirs.index()].place));
  }
  return made;
}

std::vector<std::byte*> CudaProgram::addresses(
    std::span<const exec::TransferredTensor> transferred) {
  std::vector<std::byte*> made;
  for (const exec::TransferredTensor& tensor : transferred) made.push_back(tensor.memory);
  return made;
}

/// Captures a form with the tensors that every call delivers, and another with all deliverables if
/// there are more. Calls cycle through the input slots and the output slots, so a pair of slots
/// never occurs if their numbers differ modulo the greatest common divisor of both counts.
void CudaProgram::capture_forms(std::vector<uint8_t> always) {
  always.resize(deliverables_.size());
  const std::vector<uint8_t> all(deliverables_.size(), 1);
  for (const std::vector<uint8_t>& wanted : {always, all}) {
    if (!forms_.empty() && forms_.front().wanted == wanted) break;
    capture_form(wanted, false);
    if (!fingerprinted_.empty()) capture_form(wanted, true);
  }
}

void CudaProgram::capture_form(const std::vector<uint8_t>& wanted, bool fingerprints) {
  const size_t divisor = std::gcd(input_slots(), sizes_.output_slots);
  graph_capture_->take_fingerprints(fingerprints);
  Form& form = forms_.emplace_back(Form{wanted, fingerprints, {}});
  for (size_t in = 0; in < input_slots(); ++in)
    for (size_t out = 0; out < sizes_.output_slots; ++out)
      for (size_t part = 0; part < graph_capture_->parts(); ++part)
        form.graphs.push_back(in % divisor == out % divisor && launches(part)
                                  ? capture(part, wanted, in, out)
                                  : OwnedGraph());
}

OwnedGraph CudaProgram::capture(size_t part, std::span<const uint8_t> wanted, size_t input_slot,
                                size_t output_slot) {
  Capture capture(driver_, stream_.get(), *graph_capture_);
  graph_capture_->put(part, wanted, input_slot, output_slot);
  return capture.end();
}

CudaProgram::~CudaProgram() {
  if (ranks_) ranks_->give_up();
  try {
    driver_.synchronize(stream_.get());  // nothing is destroyed while a call still uses it
  } catch (const RunError&) {
    // The error was reported when the call was waited for, or no code waits for it anymore.
  }
}

void CudaProgram::write_variable(TensorId id, const ArrayView& value) {
  const TensorInfo& tensor = exec::variable_of(tensors_, id, value);
  std::span<const std::byte> bytes(value.data, value.bytes());
  if (is_sliced(id)) bytes = ranks_->slots().part_of(id, bytes);
  if (!bytes.empty()) copy(memory_.address(tensor.place), bytes.data(), bytes.size());
}

void CudaProgram::copy(void* to, const void* from, size_t bytes) const {
  in_job([&] {
    driver_.copy(to, from, bytes, stream_.get());
    driver_.synchronize(stream_.get());
  });
}

/// Each rank has the whole of every variable, except for slots that are divided.
void CudaProgram::read_variable(TensorId id, std::span<std::byte> into) const {
  if (is_sliced(id)) return read_slot(id, into);
  if (into.empty()) return;
  exec::variable_of(tensors_, id, into.size());
  copy_to_host(id, into);
}

/// Rank 0 reads its slice directly into the whole slot; every other rank allocates memory for its
/// slice.
void CudaProgram::read_slot(TensorId id, std::span<std::byte> into) const {
  const exec::SlicedSlots& slots = ranks_->slots();
  if (!ranks_->leads()) {
    std::vector<std::byte> own(slots.bytes_here(id));
    copy_to_host(id, own);
    return slots.gather(id, own.data());
  }
  exec::variable_of(tensors_, id, into.size());
  copy_to_host(id, slots.part_of(id, into));
  slots.gather(id, into.data());
}

void CudaProgram::copy_to_host(TensorId id, std::span<std::byte> into) const {
  if (!into.empty()) copy(into.data(), memory_.address(tensors_[id.index()].place), into.size());
}

std::span<std::byte> CudaProgram::input(TensorId input, size_t slot) {
  const size_t offset = memory_.input_layout().host_offsets[input.index()];
  FLOW_CHECK(offset > 0, "input {}", input.value);
  return {memory_.host_inputs(slot) + offset, tensors_[input.index()].bytes()};
}

void CudaProgram::connect() {
  if (!ranks_) return;
  in_job([&] {
    driver_.synchronize(stream_.get());
    ranks_->connect(stream_.get());
  });
}

/// Returns the first form that delivers all requested tensors.
const CudaProgram::Form& CudaProgram::form_for(const exec::Call& call) const {
  const auto suffices = [&](const Form& form) {
    return form.fingerprints == call.fingerprints &&
           std::ranges::equal(call.wanted, form.wanted, [](bool w, bool has) { return has || !w; });
  };
  const auto found = std::ranges::find_if(forms_, suffices);
  FLOW_CHECK(found != forms_.end(), "{} of {} deliverables", call.wanted.size(),
             deliverables_.size());
  return *found;
}

void CudaProgram::launch(const exec::Call& call, size_t input_slot, size_t output_slot) {
  if (call.segment == 0) start(call, input_slot, output_slot);
  in_job([&] {
    if (shards_ > 1)
      put_shards(call, input_slot, output_slot);
    else
      put(call.segment, call, input_slot, output_slot);
    driver_.record(done_[output_slot * segments_ + call.segment].get(), stream_.get());
  });
}

void CudaProgram::start(const exec::Call& call, size_t input_slot, size_t output_slot) {
  for (int64_t shard = 0; CallBlock & block : memory_.calls(input_slot))
    block = {call.step, call.learning_rate, shard++};
  memory_.fault(output_slot) = {};
  graph_capture_->take_fingerprints(call.fingerprints);
  if (call.fingerprints) ++fingerprinted_calls_;
  if (!times_.empty()) times_[output_slot].launched = exec::Profile::now();
  if (!ranks_) return;
  ranks_->begin(call);
  for (const TensorId id : ranks_->streamed()) ranks_->share(input(id, input_slot));
}

void CudaProgram::put_shards(const exec::Call& call, size_t input_slot, size_t output_slot) {
  graph_capture_->begin(call.wanted, input_slot, output_slot);
  for (int64_t shard = first_shard_; shard < end_shard_; ++shard) {
    graph_capture_->begin_shard(shard, input_slot, output_slot);
    put_shard(shard + 1 == end_shard_, call, input_slot, output_slot);
    graph_capture_->end_shard(shard, call.wanted, output_slot);
  }
  if (ranks_)
    put_pieces(graph_capture_->shard_pieces(), graph_capture_->pieces(), call, input_slot,
               output_slot);
  else
    put(1, call, input_slot, output_slot);
  graph_capture_->join_copies();
}

void CudaProgram::put_shard(bool last, const exec::Call& call, size_t input_slot,
                            size_t output_slot) {
  if (!last || !ranks_) return put(0, call, input_slot, output_slot);
  put_pieces(0, graph_capture_->shard_pieces(), call, input_slot, output_slot);
}

void CudaProgram::put_pieces(size_t first, size_t end, const exec::Call& call, size_t input_slot,
                             size_t output_slot) {
  for (size_t piece = first; piece < end; ++piece) {
    put(parts_ + piece, call, input_slot, output_slot);
    graph_capture_->end_piece(piece, call.wanted, output_slot);
  }
}

/// Launches a graph, or puts the work step by step.
void CudaProgram::put(size_t part, const exec::Call& call, size_t input_slot, size_t output_slot) {
  if (forms_.empty()) return graph_capture_->put(part, call.wanted, input_slot, output_slot);
  const size_t slots = input_slot % input_slots() * sizes_.output_slots + output_slot;
  const OwnedGraph& graph = form_for(call).graphs[slots * graph_capture_->parts() + part];
  FLOW_CHECK(graph, "input slot {} with output slot {}", input_slot, output_slot);
  driver_.launch(graph.get(), stream_.get());
}

void CudaProgram::wait_segment(size_t segment, size_t output_slot) {
  const bool last = segment + 1 == segments_;
  const Event done = done_[output_slot * segments_ + segment].get();
  in_job([&] {
    ranks_ ? ranks_->wait(done) : driver_.synchronize(done);
    if (last && !times_.empty()) read_times(output_slot);
    if (ranks_) ranks_->finish(memory_, output_slot, found(output_slot));
  });
}

/// The device reports the times between its events. The host can only estimate the start of a call:
/// it is its launch or the end of the previous call, whichever is later.
void CudaProgram::read_times(size_t output_slot) {
  Times& times = times_[output_slot];
  graph_capture_->times().read(output_slot, std::max(times.launched, last_end_), times.ends);
  last_end_ = times.ends.back();
}

const OutputLayout::Output& CudaProgram::output_of(TensorId tensor) const {
  const auto found = std::ranges::find(deliverables_, tensor);
  FLOW_CHECK(found != deliverables_.end(), "tensor {} is not deliverable", tensor.value);
  return memory_.output_layout().outputs[static_cast<size_t>(found - deliverables_.begin())];
}

std::span<const std::byte> CudaProgram::delivered(TensorId tensor, size_t output_slot) const {
  return {memory_.host_outputs(output_slot) + output_of(tensor).offset,
          tensors_[tensor.index()].bytes()};
}

std::span<const std::byte> CudaProgram::delivered_part(TensorId tensor, int64_t shard,
                                                       size_t output_slot) const {
  const OutputLayout::Output& output = output_of(tensor);
  if (!output.parts) return delivered(tensor, output_slot);
  return {memory_.host_outputs(output_slot) + *output.parts +
              static_cast<size_t>(shard) * output.part_bytes,
          output.part_bytes};
}

std::optional<exec::Fault> CudaProgram::fault(size_t output_slot) const {
  return ranks_ ? ranks_->fault(output_slot) : found(output_slot);
}

std::optional<exec::Fault> CudaProgram::found(size_t output_slot) const {
  const FaultBlock& block = memory_.fault(output_slot);
  if (block.check == 0) return std::nullopt;
  const Check& check = checks_[static_cast<size_t>(block.check) - 1];
  return exec::Fault{check.where, check.operand, block.row, block.value, check.limit};
}

}  // namespace flow::cuda
