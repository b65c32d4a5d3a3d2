// The README's table of ops is the table of ops. FLOW_REBASE=1 in the environment rewrites it.
#include <fmt/format.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

using namespace flow;

namespace {

/// A table's cell: bars would end it.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string operand_cell(const OpDef& op) {
  std::vector<std::string> operands;
  for (const OperandDef& operand : op.operands)
    operands.push_back(fmt::format("`{}`{}{}", operand.name, operand.variadic ? " ..." : "",
                                   operand.optional ? " (optional)" : ""));
  return join(operands, ", ");
}

std::string attribute_cell(const OpDef& op) {
  std::vector<std::string> attributes;
  for (const AttributeDef& attribute : op.attributes)
    attributes.push_back(attribute.fallback.empty()
                             ? fmt::format("`{}`!", attribute.name)
                             : fmt::format("`{}`={}", attribute.name, attribute.fallback));
  return cell(join(attributes, ", "));
}

/// All ops that a job file may name.
std::string ops_table() {
  std::string text = "| op | operands | attributes (`!` required) | |\n| --- | --- | --- | --- |\n";
  for (const OpDef* op : written_ops()) {
    const std::string formula = op->formula.empty() ? "" : fmt::format(" `{}`", cell(op->formula));
    text += fmt::format("| `{}` | {} | {} | {}{} |\n", op->name, operand_cell(*op),
                        attribute_cell(*op), cell(op->doc), formula);
  }
  return text;
}

}  // namespace

TEST_CASE("the README's table of ops is fresh", "[golden]") {
  const fs::path readme = fs::path(FLOW_SOURCE_DIR) / "README.md";
  const std::string text = read_text(readme);
  constexpr std::string_view kBegin = "| op | operands | attributes", kEnd = "\n## Figures";
  const size_t begin = text.find(kBegin), end = text.find(kEnd, begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const char* rebase = ::getenv("FLOW_REBASE");
  if (rebase && std::string_view(rebase) == "1")
    write_text_atomically(readme, text.substr(0, begin) + ops_table() + text.substr(end));
  else
    CHECK(text.substr(begin, end - begin) == ops_table());
}
