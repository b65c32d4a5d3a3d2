// The rules of all families.
#include <map>

#include "compiler/grad/rules.h"

namespace flow::grad {

Rules rules_of(std::string_view op) {
  static const std::map<std::string_view, Rules> kByOp = [] {
    std::map<std::string_view, Rules> by_op;
    for (const auto family : {
#define FLOW_RULES(family) family,
#include "compiler/grad/families.def"
#undef FLOW_RULES
         })
      for (const Rules& rules : family()) by_op.emplace(rules.op, rules);
    return by_op;
  }();
  const auto found = kByOp.find(op);
  return found == kByOp.end() ? Rules{op} : found->second;
}

}  // namespace flow::grad
