// Random calls, found by op.
#include "tests/property/random_cases.h"

#include "tests/property/cases/draw.h"
#include "tests/property/example_cases.h"

namespace flow::test {
namespace {

/// The op's own maker, or null.
const CaseMaker* maker_of(const std::string& op) {
  static const std::span<const CaseMaker> families[] = {
#define FLOW_CASES(family) family##_cases(),
#include "tests/property/cases/cases.def"
#undef FLOW_CASES
  };
  for (const std::span<const CaseMaker> family : families)
    for (const CaseMaker& maker : family)
      if (maker.op == op) return &maker;
  return nullptr;
}

}  // namespace

KernelCase random_case(const std::string& op, Random& random) {
  const CaseMaker* maker = maker_of(op);
  return maker ? maker->make(op, random) : example_case(op, random);
}

int64_t terms_of(const KernelCase& one) {
  if (!is_float(one.results[0].dtype) || one.inputs.empty()) return 1;
  const CaseMaker* maker = maker_of(one.op);
  if (!maker) return terms_of_example(one);
  return maker->terms ? maker->terms(one) : 1;
}

}  // namespace flow::test
