// How a variable starts: `zeros`, `0.1`, or `{type: truncated_normal, stddev: 0.1}`.
#include <fmt/format.h>

#include "compiler/job/read/read_record.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "runtime/base/text.h"

namespace flow::job {

std::optional<WrittenInitializer> read_initializer(Reader& reader, const yaml::Node& node,
                                                   std::string_view what) {
  if (node.is_scalar())
    if (const auto value = parse_number(node.scalar)) return plan::initializers::Constant{*value};
  const ParsedVariant given(reader, node, node.span, what, initializers());
  if (!given.variant()) return {};
  WrittenInitializer made;
  const bool complete = read_record(given.fields(), *given.variant(), made).empty();
  if (const auto* uniform = std::get_if<plan::initializers::Uniform>(&made);
      uniform && complete && uniform->min >= uniform->max)
    reader.error(Diagnosis::kOutOfRange, *given.fields().find("max"),
                 fmt::format("`max` is {}; expected more than `min`, {}", shortest(uniform->max),
                             shortest(uniform->min)));
  return made;
}

}  // namespace flow::job
