// Faults put into golden arrays, and judged like the output of a run.
#include "runtime/compare/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/compare.h"
#include "runtime/compare/doubts.h"
#include "runtime/compare/faults.h"

namespace flow::compare {
namespace {

class Tester {
 public:
  Tester(const Side& golden, const ToleranceRules& rules) : golden_(golden), rules_(rules) {}

  void test(const std::string& name, const fs::path& path) {
    const Array array = read_array(path);
    const ArrayView view = array.view();
    if (view.shape.elements() < 2) return skip(name, "it has fewer than two elements");
    const Spread spread = spread_of(view);
    if (spread.constant) return skip(name, "it is constant");
    const ArrayContext context{steps_of(golden_, name, view.shape.rank() > 0 ? view.shape[0] : 0),
                               {}};
    const bool steps_first = context.steps.size() > 1;
    const Doubles values = doubles_of(view);
    result_.arrays.push_back({name});
    for (const Fault& fault : faults_of(view, spread.deviation, steps_first))
      inject(name, view, values, fault, context);
  }

  void skip(const std::string& name, const std::string& why) {
    result_.skipped.push_back(fmt::format("{}: {}", name, why));
  }

  SelfTest result() && { return std::move(result_); }

 private:
  void inject(const std::string& name, const ArrayView& golden, const Doubles& values,
              const Fault& fault, const ArrayContext& context) {
    const Array wrong = array_of(golden.dtype, golden.shape, fault.apply(values));
    if (std::memcmp(wrong.bytes().data(), golden.data, wrong.bytes().size()) == 0) return;
    ++result_.injected;
    ++result_.arrays.back().injected;
    if (judge_arrays(name, golden, wrong.view(), rules_, context).failed()) {
      ++result_.found;
      ++result_.arrays.back().found;
      return;
    }
    auto& missed = result_.missed;
    auto known = std::ranges::find_if(missed, [&](const MissedFault& one) {
      return one.array == name && one.fault == fault.name;
    });
    if (known == missed.end()) known = missed.insert(known, {name, fault.name, {}});
    if (!fault.size.empty()) known->sizes.push_back(fault.size);
  }

  const Side& golden_;
  const ToleranceRules& rules_;
  SelfTest result_;
};

}  // namespace

SelfTest test_tolerances(const Side& golden, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore) {
  Tester tester(golden, rules);
  for (const auto& [name, path] : golden.arrays) {
    if (is_ignored(ignore, name)) continue;
    try {
      tester.test(name, path);
    } catch (const RequestError&) {  // of a rule, not of a file
      throw;
    } catch (const RunError& error) {
      tester.skip(name, error.what());
    }
  }
  return std::move(tester).result();
}

}  // namespace flow::compare
