// Calls of ops in plans.
#include "tests/unit/plan/call_results.h"

#include "runtime/base/error.h"
#include "runtime/plan/check/check.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan::sample {

Results results_of(std::string_view op, const std::vector<CallOperand>& operands,
                   const Entries& entries, DType compute) {
  std::vector<ops::Operand> types;
  for (const CallOperand& operand : operands) types.push_back({operand.dtype, operand.shape});
  const std::string path = "a.plan";
  const Location location(path);
  const Attributes attributes = attributes_of(entries);
  Results results;
  for (const ops::Result& result : check_call(spec_of(op, location), std::move(types), attributes,
                                              {.compute = compute}, location))
    results.emplace_back(result.dtype, result.shape);
  return results;
}

bool refuses(std::string_view op, const std::vector<CallOperand>& operands,
             const Entries& entries) {
  try {
    results_of(op, operands, entries);
    return false;
  } catch (const RequestError&) {
    return true;
  }
}

}  // namespace flow::plan::sample
