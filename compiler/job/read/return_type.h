// The types that `returns:` and `expects:` name, in OneFlow's words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::job {

/// So deep may types and values be nested.
inline constexpr int kDeepestReturn = 32;

/// Numpy | ListNumpy | Tuple[R, ...] | List[R] | Dict[str, R] | Dict[int, R]
struct ReturnType {
  plan::ReturnValue::Kind kind = plan::ReturnValue::Kind::kNumpy;
  std::vector<ReturnType> items;  // kTuple: each; kList, kDict: one for all
  bool integer_keys = false;

  std::string str() const;
};

/// The value of `type:`: Callback | Callback[R] | R
struct DeclaredReturn {
  bool callback = false;
  std::optional<ReturnType> type;  // absent: inferred
};

/// The type; or nothing, and `wrong` describes what was found and expected.
std::optional<DeclaredReturn> parse_return_type(std::string_view text, std::string& wrong);

/// The first difference of two types, expected and found; nothing if they are equal.
std::optional<std::pair<std::string, std::string>> find_difference(const ReturnType& expected,
                                                                   const ReturnType& given);

}  // namespace flow::job
