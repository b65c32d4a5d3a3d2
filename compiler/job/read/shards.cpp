// `shards:` - into how many equal parts each batch is cut.
#include <fmt/format.h>

#include <bit>
#include <numeric>

#include "compiler/job/read/sections.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

bool is_power_of_two(int64_t number) { return std::has_single_bit(static_cast<uint64_t>(number)); }

bool has_batch(const Input& input) {
  return !input.has_error && input.rows && input.shape.rank() > 0;
}

/// The first input whose rows cannot be cut into so many equal parts, or null.
const Input* find_uneven(const std::vector<Input>& inputs, int64_t shards) {
  for (const Input& input : inputs)
    if (has_batch(input) && input.shape[0] % shards != 0) return &input;
  return nullptr;
}

/// The largest power of two that divides every batch.
int64_t most_shards(const std::vector<Input>& inputs) {
  int64_t common = plan::kMaxShards;
  for (const Input& input : inputs)
    if (has_batch(input)) common = std::gcd(common, input.shape[0]);
  return common;
}

/// "96 or 104": the nearest batches that `shards` divides.
std::string nearest_batches(int64_t rows, int64_t shards) {
  const int64_t below = rows / shards * shards;
  return below > 0 ? fmt::format("{} or {}", below, below + shards) : std::to_string(shards);
}

/// As many shards as `ids` names devices, or 1 where that cannot be.
int64_t shards_of_devices(Reader& reader, const Job& job) {
  const int64_t devices = job.placement.devices;
  if (!is_power_of_two(devices)) {
    const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(devices)));
    reader
        .error(Diagnosis::kPlacement, job.placement.ids_span,
               fmt::format("`ids` names {} devices; expected a power of two", devices))
        .with_hint(fmt::format("name {} or {} devices", below, 2 * below));
    return 1;
  }
  if (const Input* input = find_uneven(job.inputs, devices)) {
    reader
        .error(Diagnosis::kPlacement, input->shape_span,
               fmt::format("{} rows cannot be split evenly among {} devices", input->shape[0],
                           devices))
        .label(job.placement.ids_span, "the devices")
        .with_hint(fmt::format("use a batch of {} rows", nearest_batches(input->shape[0], devices)))
        .with_hint("if the input has no batch, set `rows: false` on it");
    return 1;
  }
  return devices;
}

void report_no_power(Reader& reader, const yaml::Node& node, int64_t shards) {
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(shards)));
  reader
      .error(Diagnosis::kShards, node,
             fmt::format("`shards` is {}; expected a power of two", shards))
      .with_hint(fmt::format("write `shards: {}` or `shards: {}`", below, 2 * below));
}

void report_devices(Reader& reader, const yaml::Node& node, int64_t shards,
                    const Placement& placement) {
  reader
      .error(Diagnosis::kShards, node,
             fmt::format("`shards` is {}; expected a multiple of the {} devices in `ids`", shards,
                         placement.devices))
      .label(placement.ids_span, "the devices")
      .with_hint(is_power_of_two(placement.devices)
                     ? fmt::format("write `shards: {}`, or name fewer devices", placement.devices)
                     : "name 1, 2, 4 or another power of two of devices");
}

void report_uneven(Reader& reader, const yaml::Node& node, int64_t shards, const Job& job,
                   const Input& input) {
  const int64_t most = most_shards(job.inputs);
  Diag& error =
      reader
          .error(Diagnosis::kShards, node,
                 fmt::format("`shards` is {}; expected a divisor of the batch of `{}`, {} rows",
                             shards, input.name.text, input.shape[0]))
          .label(input.shape_span, "the batch");
  if (most > 1) error.with_hint(fmt::format("write `shards: {}`", most));
  error.with_hint(fmt::format("use a batch of {} rows", nearest_batches(input.shape[0], shards)));
}

}  // namespace

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
