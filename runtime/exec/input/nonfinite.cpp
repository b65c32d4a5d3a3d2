// Infinities and NaNs in arrays: the first of them, and where it stands.
#include "runtime/exec/input/nonfinite.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/io/elements.h"

namespace flow::exec {

std::optional<std::string> first_nonfinite(const ArrayView& value) {
  return io::visit_elements(value, [&](auto elements) -> std::optional<std::string> {
    for (size_t i = 0; i < elements.size(); ++i)
      if (const auto number = static_cast<double>(elements[i]); !std::isfinite(number))
        return fmt::format("{} at {}", shortest(number),
                           value.shape.index_str(static_cast<int64_t>(i)));
    return {};
  });
}

std::optional<std::string> nonfinite_variables(
    const State& state, const std::function<bool(const plan::Variable&)>& wanted) {
  std::vector<std::string> nonfinite;
  for (const State::Entry& entry : state.entries()) {
    if (!wanted(*entry.variable)) continue;
    if (const auto found = first_nonfinite(entry.value.view()))
      nonfinite.push_back(fmt::format("`{}` is {}", entry.tensor->name, *found));
  }
  if (nonfinite.empty()) return {};
  const std::string more =
      nonfinite.size() > 1 ? fmt::format(" (first of {} such variables)", nonfinite.size()) : "";
  return nonfinite.front() + more;
}

}  // namespace flow::exec
