// Random calls, found by op.
#include "tests/property/random_cases.h"

#include <stdexcept>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

const CaseMaker& maker_of(const std::string& op) {
  static const std::span<const CaseMaker> families[] = {
#define FLOW_CASES(family) family##_cases(),
#include "tests/property/cases/cases.def"
#undef FLOW_CASES
  };
  for (const std::span<const CaseMaker> family : families)
    for (const CaseMaker& maker : family)
      if (maker.op == op) return maker;
  throw std::logic_error("no random calls of " + op + ": add them to tests/property/cases");
}

}  // namespace

KernelCase random_case(const std::string& op, Random& random) {
  return maker_of(op).make(op, random);
}

int64_t terms_of(const KernelCase& one) {
  if (!is_float(one.results[0].dtype) || one.inputs.empty()) return 1;
  const auto terms = maker_of(one.op).terms;
  return terms ? terms(one) : 1;
}

}  // namespace flow::test
