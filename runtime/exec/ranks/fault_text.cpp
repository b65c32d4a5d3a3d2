// Faults as JSON arrays.
#include "runtime/exec/ranks/fault_text.h"

#include "runtime/plan/json/json.h"

namespace flow::exec {

std::string to_text(const Fault& fault) {
  return Json::array({fault.where, fault.operand, fault.row, fault.value, fault.limit}).dump();
}

Fault fault_of(const std::string& text) {
  const Json json = Json::parse(text);
  return {json[0].get<std::string>(), json[1].get<std::string>(), json[2].get<int64_t>(),
          json[3].get<int64_t>(), json[4].get<int64_t>()};
}

}  // namespace flow::exec
