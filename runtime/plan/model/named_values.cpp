// Values of records by name, in a few words.
#include "runtime/plan/model/named_values.h"

#include "runtime/base/text.h"

namespace flow::plan {

std::string text_of(const NamedValues& values) {
  std::string text = values.type;
  for (const auto& [name, number] : values.numbers)
    text += fmt::format(" {}={}", name, shortest(number));
  return text;
}

}  // namespace flow::plan
