// The rules of all families.
#include <map>

#include "compiler/ir/rules.h"
#include "runtime/base/check.h"

namespace flow::grad {

Rules rules_of(const ops::OpSpec& op) {
  static const std::map<const ops::OpSpec*, Rules> kByOp = [] {
    std::map<const ops::OpSpec*, Rules> by_op;
    for (const auto family : {
#define FLOW_UNDIFFERENTIATED(family)
#define FLOW_FAMILY(family) family,
#include "ops/families.def"
         })
      for (const Rules& rules : family()) {
        const ops::OpSpec* spec = ops::find_spec(rules.op);
        FLOW_CHECK(spec && by_op.emplace(spec, rules).second, "rules of {}", rules.op);
      }
    return by_op;
  }();
  const auto found = kByOp.find(&op);
  return found == kByOp.end() ? Rules{op.name} : found->second;
}

}  // namespace flow::grad
