// Arithmetic of `$(...)` and conditions of `when:`: any text has a value or a message that points
// into it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "compiler/job/text/expression.h"
#include "runtime/base/error.h"
#include "runtime/plan/model/condition.h"

namespace {

using flow::job::ExpressionError;
using flow::job::ExpressionValue;

std::optional<ExpressionValue> look_up(std::string_view name, ExpressionError& error) {
  if (name == "n") return int64_t{7};
  if (name == "x") return 0.5;
  if (name == "yes") return true;
  error.message = "unknown";
  return {};
}

void evaluate(std::string_view text) {
  ExpressionError error;
  const auto value = flow::job::evaluate(text, look_up, error);
  FLOW_CHECK(value || (!error.message.empty() && error.offset <= text.size()));
  if (value) FLOW_CHECK(!flow::job::to_text(*value).empty());
}

void judge(std::string_view text) {
  flow::plan::ConditionError error;
  const auto condition = flow::plan::parse_condition(text, error);
  FLOW_CHECK(condition || !error.message.empty());
  FLOW_CHECK(condition || (error.begin <= error.end && error.end <= text.size() + 1));
  if (condition) condition->holds({1, 0.5, -1, 2, 0, 3});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  evaluate(text);
  judge(text);
  return 0;
}
