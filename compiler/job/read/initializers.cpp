// How a variable starts: `zeros`, `0.1`, or `{type: truncated_normal, stddev: 0.1}`.
#include <fmt/format.h>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {

std::optional<plan::Initializer> read_initializer(Reader& reader, const yaml::Node& node,
                                                  std::string_view what) {
  if (node.is_scalar())
    if (const auto value = parse_number(node.scalar))
      return plan::Initializer{std::string(initializers().number), {{"value", *value}}, {}};
  const ParsedVariant given(reader, node, node.span, what, initializers());
  if (!given.variant()) return {};
  VariantValues values = read_values(given.fields(), *given.variant());
  plan::Initializer made{std::string(given.variant()->type), std::move(values.numbers), {}};
  for (const auto& [key, text] : values.texts) {
    if (key == "path")
      made.path = text;
    else
      made.values[text] = 1;
  }
  if (made.values.contains("max") && made.values.contains("min") &&
      made.values["min"] >= made.values["max"])
    reader.error(Diagnosis::kOutOfRange, *given.fields().find("max"),
                 fmt::format("`max` is {}; expected more than `min`, {}",
                             shortest(made.values["max"]), shortest(made.values["min"])));
  return made;
}

}  // namespace flow::job
