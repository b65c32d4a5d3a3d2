// `placement:` - the device, and the part of it that `ids` names.
#include "compiler/job/read/placement.h"

#include <fmt/format.h>

#include "compiler/job/read/sections.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// The first device that `ids` names and the last, or nothing where it cannot be read: "0:0-3".
std::optional<std::pair<int64_t, int64_t>> parse_ids(const std::string& text) {
  constexpr int64_t kLargest = 1'000'000;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {};
  const size_t dash = text.find('-', colon);
  const auto machine = parse_bound(text.substr(0, colon));
  const auto first = parse_bound(text.substr(colon + 1, dash - colon - 1));
  const auto last = dash == std::string::npos ? first : parse_bound(text.substr(dash + 1));
  if (machine != 0 || !first || !last || *first < 0 || *last < *first || *last > kLargest)
    return {};
  return std::pair{*first, *last};
}

/// Are there devices of those numbers?
void check_ids(Reader& reader, const Placement& placement, plan::DeviceKind device) {
  const int64_t end = placement.first + placement.devices;
  if (device == plan::DeviceKind::kCpu && end > plan::kMaxDevices)
    reader
        .error(Diagnosis::kPlacement, placement.ids_span,
               fmt::format("`ids` names CPU device {}; expected 0 to {}", end - 1,
                           plan::kMaxDevices - 1))
        .with_hint("name fewer devices: they share the batch");
  if (device == plan::DeviceKind::kGpu && end > 1)
    reader
        .error(Diagnosis::kPlacement, placement.ids_span,
               fmt::format("`ids` names GPU {}; expected GPU 0", end - 1))
        .with_hint("write `\"0:0\"`, and select a GPU with CUDA_VISIBLE_DEVICES");
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
    const auto text = fields.text("ids");
    if (!text) return placement;
    const auto devices = parse_ids(*text);
    if (!devices)
      reader
          .error(Diagnosis::kPlacement, *ids,
                 fmt::format("`ids` is `{}`; expected `machine:first-last`", *text))
          .with_hint("write `\"0:0\"` or `\"0:0-3\"`: the only machine is 0");
    placement.has_ids = devices.has_value();
    placement.first = devices ? devices->first : 0;
    placement.devices = devices ? devices->second - devices->first + 1 : 1;
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
}

void check_entry_placement(Reader& reader, const Entry& entry, const Job& job,
                           plan::DeviceKind device) {
  const Placement& placement = *entry.placement;
  check_ids(reader, placement, device);
  const int64_t devices = job.placement.devices;
  if (device != plan::DeviceKind::kCpu || !placement.has_ids || placement.devices == devices)
    return;
  reader
      .error(Diagnosis::kPlacement, placement.ids_span,
             fmt::format("{}: `ids` names {}, but job `{}` has {}", entry.name.text,
                         counted(static_cast<uint64_t>(placement.devices), "CPU device"),
                         job.name.text, devices))
      .with_hint("delete `ids`: the devices of the job share the rows of all tensors");
}

}  // namespace flow::job
