// Any bytes as a plan, as they are and with a checksum that fits: read, or refused with a
// RequestError. What was read is written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/base/error.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace {

void read(const std::string& text) {
  try {
    const flow::plan::Plan plan = flow::plan::from_json(text, "a.plan");
    const std::string written = flow::plan::to_json(plan);
    if (flow::plan::to_json(flow::plan::from_json(written, "a.plan")) != written) std::abort();
  } catch (const flow::RequestError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  read(flow::plan::with_checksum(text));
  return 0;
}
