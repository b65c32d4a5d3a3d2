// checkpoint.json: any text is a record or a RequestError; a record survives being written.
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/error.h"
#include "runtime/plan/json/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto record = flow::plan::checkpoint_from_json(text, "checkpoint.json");
    const std::string written = flow::plan::to_json(record);
    FLOW_CHECK(flow::plan::to_json(flow::plan::checkpoint_from_json(written, "again")) == written);
  } catch (const flow::RequestError&) {
    // It says what is wrong; nothing was done.
  }
  return 0;
}
