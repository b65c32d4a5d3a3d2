// Any plan that is read and checked is prepared on the CPU or refused with an error; nothing runs.
// Inputs are changed as JSON, so that most are plans.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/run/executor.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/json/structs.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using flow::Json;
namespace plan = flow::plan;

/// Of all tensors of a job: what would take longer to allocate than to prepare is not tried.
constexpr size_t kMostBytes = size_t{16} << 20;

bool is_small(const plan::Job& job) {
  flow::exec::check_tensors_fit(job, kMostBytes, "memory");
  size_t bytes = 0;
  for (const plan::Tensor& tensor : job.tensors) bytes += flow::exec::whole_bytes_of(job, tensor);
  return bytes <= kMostBytes;
}

void prepare(const plan::Job& job) {
  if (!is_small(job)) return;
  flow::exec::PrepareOptions options;
  options.threads = 1;
  std::vector<flow::exec::Delivery> deliveries;
  for (const plan::Hook& hook : job.hooks) deliveries.emplace_back().tensor = hook.tensor;
  options.deliverables = flow::exec::list_deliverables(job, deliveries);
  flow::cpu::make_backend()->prepare(job, options);
}

/// All values below `json`, and itself.
void list_values(Json& json, std::vector<Json*>& values) {
  values.push_back(&json);
  if (json.is_structured())
    for (Json& below : json) list_values(below, values);
}

void change_number(Json& json, std::mt19937& chance) {
  constexpr int64_t kNumbers[] = {0, 1, -1, 2, 3, 7, 255, 65536, int64_t{1} << 31, INT64_MAX};
  if (json.is_number_float()) {
    constexpr double kReals[] = {0, 1, -1, 0.5, 1e-30, 1e30, 3.5};
    json = kReals[chance() % std::size(kReals)];
  } else if (chance() % 2 == 0) {
    json = kNumbers[chance() % std::size(kNumbers)];
  } else {
    const auto number = json.get<int64_t>();
    json = static_cast<int64_t>(static_cast<uint64_t>(number) + chance() % 5 - 2);
  }
}

void change(Json& root, std::mt19937& chance) {
  std::vector<Json*> values;
  list_values(root, values);
  Json& one = *values[chance() % values.size()];
  const Json other = *values[chance() % values.size()];
  if (one.is_number() && chance() % 4 != 0)
    change_number(one, chance);
  else if (one.is_boolean())
    one = !one.get<bool>();
  else if (one.is_array() && !one.empty() && chance() % 2 == 0)
    one.erase(one.begin() + static_cast<ptrdiff_t>(chance() % one.size()));
  else if (one.is_array() && !one.empty())
    one.push_back(one[chance() % one.size()]);
  else if (one.type() == other.type())
    one = other;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 chance(seed);
  Json json = Json::parse(data, data + size, nullptr, false);
  if (json.is_discarded() || chance() % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  for (size_t times = 1 + chance() % 3; times > 0; --times) change(json, chance);
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > most) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    // As plan::from_json, but for the checksum and the hash, which changed values do not fit.
    const Json json = plan::parse_json(text, "a.plan");
    plan::Document document;
    plan::JsonReader(json, "a.plan").read(document);
    plan::check(document.plan, "a.plan");
    for (const plan::Job& job : document.plan.jobs) prepare(job);
  } catch (const flow::RunError&) {
  }
  return 0;
}
