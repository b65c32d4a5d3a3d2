// Lists fingerprints in the order of computation, and stores them in a file.
//
// The file begins with a header: magic, checksum of the rest of the header, interval, number of
// tensors, number of slots, then the ids of the tensors. The slots follow. Each contains the step,
// a checksum of the step and the rest of the slot, then 64 bytes for each tensor. Numbers are
// little-endian, the byte order of this machine.
#include "runtime/exec/core/fingerprints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "ops/core/spec.h"
#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/schedule.h"

namespace flow::exec {
namespace {

using plan::TensorId;

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kFileMagic = {'f', 'l', 'o', 'w', 'f', 'p', '1', '\n'};
constexpr uint64_t kMostTensors = 1 << 24, kMostSlots = uint64_t{1} << 32;

struct FileHead {
  std::array<char, 8> magic = kFileMagic;
  uint64_t checksum = 0;  // covers everything after it in the header, including the ids
  uint64_t every = 0, tensors = 0, slots = 0;
};
struct SlotHead {
  int64_t step = 0;
  uint64_t checksum = 0;
};

uint64_t begin_of_slots(uint64_t tensors) {
  return round_up(sizeof(FileHead) + tensors * sizeof(uint32_t), sizeof(Fingerprint));
}
uint64_t bytes_of_slot(uint64_t tensors) {
  return sizeof(SlotHead) + tensors * sizeof(Fingerprint);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the checksum for bytes that begin with a FileHead.
uint64_t checksum_of_head(std::span<const std::byte> head) {
  return fnv1a64(text_of(head.subspan(offsetof(FileHead, every))));
}
/// Returns the checksum of a slot. That of an all-zero slot is not zero.
uint64_t checksum_of_slot(std::span<const std::byte> slot) {
  return fnv1a64(text_of(slot.subspan(sizeof(SlotHead))),
                 fnv1a64(text_of(slot.first(sizeof(int64_t)))));
}

std::vector<std::byte> make_head(std::span<const plan::TensorId> tensors, int64_t every,
                                 uint64_t slots) {
  std::vector<std::byte> bytes(begin_of_slots(tensors.size()));
  FileHead head;
  head.every = static_cast<uint64_t>(every);
  head.tensors = tensors.size();
  head.slots = slots;
  std::memcpy(bytes.data(), &head, sizeof(head));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto id = static_cast<uint32_t>(tensors[i].index());
    std::memcpy(bytes.data() + sizeof(head) + i * sizeof(id), &id, sizeof(id));
  }
  head.checksum = checksum_of_head(bytes);
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

struct Slots {
  std::map<int64_t, uint64_t> offsets;  // offsets of intact slots, by step
  std::vector<uint64_t> damaged;        // offsets of slots that are cut short or damaged
};

/// Returns true for a slot that was never written or that was freed: it begins with zeros.
bool is_free(const SlotHead& head) { return head.step == 0 && head.checksum == 0; }

/// Finds the used slots in `bytes`, the contents of the file.
Slots find_slots(std::span<const std::byte> bytes, int64_t every, uint64_t tensors,
                 uint64_t slots) {
  Slots found;
  const uint64_t begin = begin_of_slots(tensors), size = bytes_of_slot(tensors);
  for (uint64_t i = 0; i < slots && begin + i * size < bytes.size(); ++i) {
    const std::span<const std::byte> slot =
        bytes.subspan(begin + i * size, std::min<uint64_t>(size, bytes.size() - begin - i * size));
    SlotHead head;
    std::memcpy(&head, slot.data(), std::min(sizeof(head), slot.size()));
    const bool whole = slot.size() == size && head.step >= 0 && head.step < plan::kMostSteps &&
                       head.step % every == 0 &&
                       static_cast<uint64_t>(head.step / every) % slots == i &&
                       head.checksum == checksum_of_slot(slot);
    if (whole)
      found.offsets.emplace(head.step, begin + i * size);
    else if (!is_free(head))
      found.damaged.push_back(begin + i * size);
  }
  return found;
}

/// Returns the tensors that another device leaves in host memory and that no step copies from
/// there.
std::vector<TensorId> received_in_place(const plan::Job& job,
                                        std::span<const TransferredTensor> transferred) {
  std::vector<TensorId> received;
  std::ranges::transform(transferred, std::back_inserter(received), &TransferredTensor::tensor);
  for (const plan::Step& step : job.steps)
    if (step.op->between_devices)
      std::erase_if(received,
                    [&](TensorId id) { return id == step.inputs[0] || id == step.outputs[0]; });
  return received;
}

}  // namespace

void require_room(const FingerprintOptions& options, size_t tensors) {
  const uint64_t least = begin_of_slots(tensors) + bytes_of_slot(tensors);
  if (options.bytes >= least) return;
  throw RequestError(
      fmt::format("the fingerprints of {} in one step take {}; the file has {}",
                  counted(tensors, "tensor"), human_bytes(least), human_bytes(options.bytes)),
      "raise --fingerprint-size");
}

FingerprintWriter::FingerprintWriter(const fs::path& path, std::span<const plan::TensorId> tensors,
                                     const FingerprintOptions& options, int64_t resume_from)
    : every_(options.every),
      begin_(begin_of_slots(tensors.size())),
      slot_(bytes_of_slot(tensors.size())) {
  require_room(options, tensors.size());
  slots_ = std::min(kMostSlots, (options.bytes - begin_) / slot_.size());
  const std::vector<std::byte> head = make_head(tensors, every_, slots_);
  std::error_code missing;
  if (resume_from > 0 && fs::exists(path, missing)) {
    const std::string text = read_text(path);
    const std::span<const std::byte> before = std::as_bytes(std::span(text));
    continued_ =
        before.size() >= head.size() && std::equal(head.begin(), head.end(), before.begin());
    if (continued_) {
      file_ = File::open_update(path);
      const SlotHead none;
      const Slots slots = find_slots(before, every_, tensors.size(), slots_);
      const auto take_back = [&](uint64_t offset) {
        file_.write_at(offset, std::as_bytes(std::span(&none, 1)));
      };
      for (const auto& [step, offset] : slots.offsets)
        if (step >= resume_from) take_back(offset);
      std::ranges::for_each(slots.damaged, take_back);
      return;
    }
  }
  file_ = File::create(path);
  file_.write(head);
}

void FingerprintWriter::write(int64_t step, std::span<const Fingerprint> values) {
  FLOW_CHECK(step % every_ == 0 && values.size_bytes() + sizeof(SlotHead) == slot_.size());
  SlotHead head{step, 0};
  std::memcpy(slot_.data(), &head, sizeof(head));
  std::memcpy(slot_.data() + sizeof(head), values.data(), values.size_bytes());
  head.checksum = checksum_of_slot(slot_);
  std::memcpy(slot_.data(), &head, sizeof(head));
  file_.write_at(begin_ + static_cast<uint64_t>(step / every_) % slots_ * slot_.size(), slot_);
}

FingerprintReader::FingerprintReader(const fs::path& path) : file_(path), bytes_(file_.bytes()) {
  const auto refuse = [&](const std::string& what) {
    return RequestError(fmt::format("{}: {}", path.string(), what),
                        "run the job again with --fingerprint");
  };
  FileHead head;
  if (bytes_.size() < sizeof(head)) throw refuse("truncated; expected a file of fingerprints");
  std::memcpy(&head, bytes_.data(), sizeof(head));
  if (head.magic != kFileMagic) throw refuse("not a file of fingerprints");
  if (head.tensors > kMostTensors || begin_of_slots(head.tensors) > bytes_.size())
    throw refuse(
        fmt::format("truncated or damaged: {} bytes for {} tensors", bytes_.size(), head.tensors));
  const std::span<const std::byte> whole = bytes_.first(begin_of_slots(head.tensors));
  if (head.checksum != checksum_of_head(whole)) throw refuse("damaged: its checksum is wrong");
  if (head.every < 1 || head.every > static_cast<uint64_t>(plan::kMostSteps) || head.slots < 1 ||
      head.slots > kMostSlots)
    throw refuse(fmt::format("invalid: an interval of {} steps, {} slots", head.every, head.slots));
  every_ = static_cast<int64_t>(head.every);
  for (uint64_t i = 0; i < head.tensors; ++i) {
    uint32_t id = 0;
    std::memcpy(&id, bytes_.data() + sizeof(head) + i * sizeof(id), sizeof(id));
    tensors_.emplace_back(id);
  }
  Slots slots = find_slots(bytes_, every_, head.tensors, head.slots);
  offsets_ = std::move(slots.offsets);
  damaged_ = slots.damaged.size();
}

std::vector<int64_t> FingerprintReader::steps() const {
  std::vector<int64_t> steps;
  for (const auto& [step, offset] : offsets_) steps.push_back(step);
  return steps;
}

std::vector<Fingerprint> FingerprintReader::of_step(int64_t step) const {
  const auto found = offsets_.find(step);
  FLOW_CHECK(found != offsets_.end(), "step {}", step);
  std::vector<Fingerprint> values(tensors_.size());
  std::memcpy(values.data(), bytes_.data() + found->second + sizeof(SlotHead),
              values.size() * sizeof(Fingerprint));
  return values;
}

FingerprintPlan::FingerprintPlan(const plan::Job& job, const Rules& rules,
                                 std::span<const TransferredTensor> transferred)
    : before_steps_(job.steps.size()), of_steps_(job.steps.size()) {
  for (const plan::Input& input : job.inputs) add(input.tensor, kFound, rules, found_);
  for (const plan::Variable& variable : job.variables) add(variable.tensor, kFound, rules, found_);
  std::vector<TensorId> received = received_in_place(job, transferred);
  const size_t shard_steps = job.sharding ? job.sharding->steps.index() : 0;
  for (size_t step = 0; step < job.steps.size(); ++step) {
    if (!job.steps[step].probe)
      plan::visit_operands(job.steps[step], [&](TensorId id) {
        if (std::erase(received, id) > 0) add(id, kFound, rules, before_steps_[step]);
      });
    if (!rules.writes(step)) continue;
    for (const TensorId id : job.steps[step].outputs) {
      const bool is_sent = std::ranges::count(transferred, id, &TransferredTensor::tensor) > 0;
      if (!id.valid() || is_sent) continue;
      const bool is_combined = step < shard_steps && job[id].combine;
      add(id, is_combined ? kCombined : step, rules, is_combined ? combined_ : of_steps_[step]);
    }
  }
}

void FingerprintPlan::add(TensorId tensor, size_t step, const Rules& rules,
                          std::vector<Entry>& to) {
  const TensorId shown = rules.shown ? rules.shown(tensor) : tensor;
  // A device may make several versions of a tensor; only the first one is fingerprinted.
  if (!shown.valid() || (rules.shown && std::ranges::count(tensors_, shown) > 0)) return;
  to.push_back({tensor, tensors_.size(), rules.part_of(step, tensor)});
  tensors_.push_back(shown);
}

}  // namespace flow::exec
