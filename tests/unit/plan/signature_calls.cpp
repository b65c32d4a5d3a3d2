// Calls of a signature.
#include "tests/unit/plan/signature_calls.h"

#include "runtime/base/error.h"
#include "runtime/plan/signature.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan::sample {

Results results_of(std::string_view op, const std::vector<Operand>& operands,
                   const Entries& entries, DType number) {
  std::vector<Tensor> tensors(operands.size());
  std::vector<const Tensor*> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    tensors[i].dtype = operands[i].dtype;
    tensors[i].shape = operands[i].shape;
    pointers.push_back(&tensors[i]);
  }
  const std::string path = "a.plan";
  const Site site(path);
  const Attributes attributes = attributes_of(entries);
  return check_call(*find_signature(op), Call(site, pointers, attributes, number));
}

bool refuses(std::string_view op, const std::vector<Operand>& operands, const Entries& entries) {
  try {
    results_of(op, operands, entries);
    return false;
  } catch (const RequestError&) {
    return true;
  }
}

}  // namespace flow::plan::sample
