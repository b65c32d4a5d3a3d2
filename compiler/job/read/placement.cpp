// Reads `placement:`, which selects the device and, with `ids`, a part of it. Reads `shards:`, the
// number of equal parts of each batch.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "compiler/job/read/sections.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/shards.h"

namespace flow::job {
namespace {

/// Parses a text such as "0:0-3". Returns nothing if it is invalid.
std::optional<plan::DeviceRange> parse_range(const std::string& text) {
  constexpr int64_t kLargest = 1'000'000;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {};
  const size_t dash = text.find('-', colon);
  const auto machine = parse_bound(text.substr(0, colon));
  const auto first = parse_bound(text.substr(colon + 1, dash - colon - 1));
  const auto last = dash == std::string::npos ? first : parse_bound(text.substr(dash + 1));
  if (!machine || !first || !last) return {};
  if (*machine < 0 || *machine > kLargest || *first < 0 || *last < *first || *last > kLargest)
    return {};
  return plan::DeviceRange{*machine, *first, *last};
}

std::optional<plan::DeviceRange> read_range(Reader& reader, const yaml::Node& node) {
  const auto text = read_text(reader, node, "`ids`");
  if (!text) return {};
  const auto range = parse_range(*text);
  if (!range)
    reader.error(Diagnosis::kPlacement, node, "`ids` is `{}`; expected `machine:first-last`", *text)
        .with_hint("write `\"0:0\"` or `\"0:0-3\"`; for two machines, `[\"0:0-3\", \"1:0-3\"]`");
  return range;
}

/// Reads `ids`. Returns nothing after an error.
std::vector<plan::DeviceRange> read_ids(Reader& reader, const yaml::Node& node) {
  std::vector<plan::DeviceRange> ids;
  bool good = true;
  for (const yaml::Node& item : yaml::each_of(node)) {
    const auto range = read_range(reader, item);
    good = good && range;
    if (range) ids.push_back(*range);
  }
  if (good && ids.empty())
    reader.error(Diagnosis::kPlacement, node, "`ids` is empty; expected `machine:first-last`");
  return good ? ids : std::vector<plan::DeviceRange>();
}

int64_t count_devices(std::span<const plan::DeviceRange> ids) {
  int64_t count = 0;
  for (const auto& [machine, first, last] : ids) count += last - first + 1;
  return count;
}

void report_too_large(Reader& reader, const Placement& placement, int64_t device,
                      plan::DeviceKind kind) {
  const bool on_gpu = kind == plan::DeviceKind::kGpu;
  reader
      .error(Diagnosis::kPlacement, placement.ids_span, "`ids` names {} {}; expected 0 to {}",
             on_gpu ? "GPU" : "CPU device", device, plan::kMaxDevices - 1)
      .with_hint(on_gpu ? "number the GPUs of each machine from 0"
                        : "name fewer devices of a machine: they share the batch");
}

/// Returns true if devices with these numbers can exist. Otherwise reports the reason.
bool check_ids(Reader& reader, const Placement& placement, plan::DeviceKind kind) {
  const auto last = std::ranges::max_element(placement.ids, {}, &plan::DeviceRange::last);
  if (last == placement.ids.end()) return true;
  if (last->last >= plan::kMaxDevices) {
    report_too_large(reader, placement, last->last, kind);
    return false;
  }
  if (placement.devices > plan::kMaxShards) {
    reader.error(Diagnosis::kPlacement, placement.ids_span,
                 "`ids` names {} devices; expected at most {}", placement.devices,
                 plan::kMaxShards);
    return false;
  }
  const auto twice = plan::device_named_twice(placement.ids);
  if (twice)
    reader
        .error(Diagnosis::kPlacement, placement.ids_span, "`ids` names device {}:{} twice",
               twice->machine, twice->device)
        .with_hint("name each device once");
  return !twice;
}

/// Returns true if the plan must list the devices. CPU devices of one machine are only shards, so
/// they need not be listed.
bool names_places(std::span<const plan::DeviceRange> ids, plan::DeviceKind device) {
  if (plan::machines_of(ids) > 1) return true;
  const bool is_first = ids.size() == 1 && ids[0] == plan::DeviceRange();
  return device == plan::DeviceKind::kGpu && !ids.empty() && !is_first;
}

void check_cpus_of_job(Reader& reader, const Entry& entry, const Job& job) {
  const int64_t devices = entry.placement->devices, of_job = job.placement.devices;
  if (devices == of_job) return;
  reader
      .error(Diagnosis::kPlacement, entry.placement->ids_span,
             "{}: `ids` names {}, but job `{}` has {}", entry.name.text,
             counted(static_cast<uint64_t>(devices), "CPU device"), job.name.text, of_job)
      .with_hint("delete `ids`: the devices of the job share the rows of all tensors");
}

void check_gpus_of_job(Reader& reader, const Entry& entry, const Job& job, const Target& target) {
  const bool on_gpu = device_of(job.placement, target) == plan::DeviceKind::kGpu;
  const std::vector<plan::DeviceRange> of_job =
      on_gpu && !job.placement.ids.empty() ? job.placement.ids : std::vector<plan::DeviceRange>(1);
  const std::vector<plan::DeviceRange>& ids = entry.placement->ids;
  if (plan::devices_of(ids) == plan::devices_of(of_job)) return;
  reader
      .error(Diagnosis::kPlacement, entry.placement->ids_span,
             "{}: `ids` names GPUs {}; expected {}", entry.name.text, plan::ids_text(ids),
             plan::ids_text(of_job))
      .with_hint("delete `ids`: an entry runs on the GPUs of its job, or on GPU 0");
}

bool is_power_of_two(int64_t number) { return std::has_single_bit(static_cast<uint64_t>(number)); }

bool has_batch(const Input& input) {
  return !input.has_error && input.rows && input.shape.rank() > 0;
}

/// Returns the first input whose rows cannot be cut into this number of equal parts, or null.
const Input* find_uneven(const std::vector<Input>& inputs, int64_t shards) {
  for (const Input& input : inputs)
    if (has_batch(input) && input.shape[0] % shards != 0) return &input;
  return nullptr;
}

/// Returns the largest power of two that divides every batch.
int64_t most_shards(const std::vector<Input>& inputs) {
  int64_t common = plan::kMaxShards;
  for (const Input& input : inputs)
    if (has_batch(input)) common = std::gcd(common, input.shape[0]);
  return common;
}

/// Returns the nearest batch sizes that `shards` divides, such as "96 or 104".
std::string nearest_batches(int64_t rows, int64_t shards) {
  const int64_t below = rows / shards * shards;
  return below > 0 ? fmt::format("{} or {}", below, below + shards) : std::to_string(shards);
}

/// Returns one shard for each device in `ids`. Reports an error and returns 1 if this is not
/// possible.
int64_t shards_of_devices(Reader& reader, const Job& job) {
  const int64_t devices = job.placement.devices;
  if (!is_power_of_two(devices)) {
    const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(devices)));
    reader
        .error(Diagnosis::kPlacement, job.placement.ids_span,
               "`ids` names {} devices; expected a power of two", devices)
        .with_hint("name {} or {} devices", below, 2 * below);
    return 1;
  }
  if (const Input* input = find_uneven(job.inputs, devices)) {
    reader
        .error(Diagnosis::kPlacement, input->shape_span,
               "{} rows cannot be split evenly among {} devices", input->shape[0], devices)
        .label(job.placement.ids_span, "the devices")
        .with_hint("use a batch of {} rows", nearest_batches(input->shape[0], devices))
        .with_hint("if the input has no batch, set `rows: false` on it");
    return 1;
  }
  return devices;
}

void report_no_power(Reader& reader, const yaml::Node& node, int64_t shards) {
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(shards)));
  reader.error(Diagnosis::kShards, node, "`shards` is {}; expected a power of two", shards)
      .with_hint("write `shards: {}` or `shards: {}`", below, 2 * below);
}

void report_devices(Reader& reader, const yaml::Node& node, int64_t shards,
                    const Placement& placement) {
  reader
      .error(Diagnosis::kShards, node,
             "`shards` is {}; expected a multiple of the {} devices in `ids`", shards,
             placement.devices)
      .label(placement.ids_span, "the devices")
      .with_hint(is_power_of_two(placement.devices)
                     ? fmt::format("write `shards: {}`, or name fewer devices", placement.devices)
                     : "name 1, 2, 4 or another power of two of devices");
}

void report_uneven(Reader& reader, const yaml::Node& node, int64_t shards, const Job& job,
                   const Input& input) {
  const int64_t most = most_shards(job.inputs);
  Diag& error = reader
                    .error(Diagnosis::kShards, node,
                           "`shards` is {}; expected a divisor of the batch of `{}`, {} rows",
                           shards, input.name.text, input.shape[0])
                    .label(input.shape_span, "the batch");
  if (most > 1) error.with_hint("write `shards: {}`", most);
  error.with_hint("use a batch of {} rows", nearest_batches(input.shape[0], shards));
}

}  // namespace

Placement read_placement(Reader& reader, const yaml::Node& node, Span key, const Section& section) {
  Placement placement;
  placement.ids_span = key;
  if (node.is_scalar()) {
    reader.error(Diagnosis::kWrongKind, node, "`placement` is a string; expected a mapping")
        .with_hint("write `{device: cpu}` or `{device: gpu, ids: \"0:0\"}`");
    return placement;
  }
  const Fields fields(reader, node, key, section);
  placement.type = *fields.word("device");
  if (const yaml::Node* ids = fields.find("ids")) {
    placement.ids_span = ids->span;
    placement.ids = read_ids(reader, *ids);
    if (!placement.ids.empty()) placement.devices = count_devices(placement.ids);
  }
  return placement;
}

plan::DeviceKind device_of(const Placement& placement, const Target& target) {
  const bool to_cpu = target.forced && target.device == plan::DeviceKind::kCpu;
  if (placement.type == "cpu" || to_cpu) return plan::DeviceKind::kCpu;
  return placement.type == "gpu" ? plan::DeviceKind::kGpu : target.device;
}

void place(Reader& reader, const Job& job, const Target& target, plan::Job& made) {
  const Placement& placement = job.placement;
  made.device = device_of(placement, target);
  made.devices = job.shards;
  check_ids(reader, placement, made.device);
  if (names_places(placement.ids, made.device)) made.ids = placement.ids;
}

void check_entry_placement(Reader& reader, const Entry& entry, const Job& job,
                           const Target& target) {
  const Placement& placement = *entry.placement;
  const plan::DeviceKind device = device_of(placement, target);
  if (!check_ids(reader, placement, device) || placement.ids.empty()) return;
  if (device == plan::DeviceKind::kCpu)
    check_cpus_of_job(reader, entry, job);
  else
    check_gpus_of_job(reader, entry, job, target);
}

int64_t read_shards(const Fields& fields, const Job& job) {
  Reader& reader = fields.reader();
  const yaml::Node* node = fields.find("shards");
  if (!node) return shards_of_devices(reader, job);
  const int64_t shards = fields.integer("shards").value_or(1);
  if (!is_power_of_two(shards))
    report_no_power(reader, *node, shards);
  else if (shards % job.placement.devices != 0)
    report_devices(reader, *node, shards, job.placement);
  else if (const Input* input = find_uneven(job.inputs, shards))
    report_uneven(reader, *node, shards, job, *input);
  else
    return shards;
  return 1;
}

}  // namespace flow::job
