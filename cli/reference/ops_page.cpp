// The page of ops.
#include <fmt/format.h>

#include "cli/reference/key_text.h"
#include "cli/reference/pages.h"
#include "cli/shared/markdown.h"
#include "compiler/ir/describe_ops.h"
#include "compiler/job/tables/tables.h"
#include "ops/core/spec.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

constexpr std::string_view kOpsPage = "ops";

std::string operands_table(const ops::OpSpec& op) {
  if (op.operands.empty()) return {};
  std::string text = "\n| operand | type | meaning |\n| --- | --- | --- |\n";
  for (const ops::OperandSpec& operand : op.operands)
    text += fmt::format("| `{}` | {} | {} |\n", operand.name, markdown_cell(operand_type(operand)),
                        markdown_cell(operand.doc));
  return text;
}

std::string attributes_table(const ops::OpSpec& op) {
  const std::vector<job::KeyDef> keys = job::training_keys(&op);
  if (op.attributes.empty() && keys.empty()) return {};
  std::string text = "\n| attribute | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const ops::AttributeSpec& attribute : op.attributes) {
    const std::string fallback =
        attribute.fallback.empty() ? "required" : fmt::format("`{}`", attribute.fallback);
    text += fmt::format("| `{}` | {} | {} | {} |\n", attribute.name,
                        markdown_cell(attribute_type(attribute)),
                        op.attribute(attribute.fallback) ? "same as " + fallback : fallback,
                        markdown_cell(attribute.doc));
  }
  for (const job::KeyDef& key : keys)
    text += fmt::format("| `{}` | {} | {} | {} |\n", key.name, type_text(key, kOpsPage),
                        key.has_default() ? fmt::format("`{}`", key.fallback) : "",
                        markdown_cell(key.doc));
  return text;
}

std::string results_text(const ops::OpSpec& op) {
  if (op.results.size() < 2) return {};
  std::vector<std::string> names;
  for (size_t i = 1; i < op.results.size(); ++i)
    names.push_back(fmt::format("`NAME.{}`", op.results[i].name));
  return fmt::format("\nSecondary outputs: {}.\n", join(names, ", "));
}

}  // namespace

std::string ops_page() {
  std::string text =
      "# Ops\n\n`flowc ops` lists the ops, `flowc ops NAME` shows one. Every entry also takes the "
      "keys of [entries](job.md#entries-of-a-graph).\n\n| op | what it computes |\n| --- | --- |\n";
  for (const ops::OpSpec* op : ops::written_specs())
    text += fmt::format("| [`{}`](#{}) | {} |\n", op->name, op->name, markdown_cell(op->doc));
  for (const ops::OpSpec* op : ops::written_specs()) {
    text += fmt::format("\n## `{}`\n\n{}\n", op->name, op->doc);
    if (!op->formula.empty()) text += fmt::format("\n```\n{}\n```\n", op->formula);
    text += operands_table(*op) + attributes_table(*op) + results_text(*op);
  }
  text += "\n## Activations\n\n`activation:` takes one of these names:\n\n";
  for (const std::string& name : activation_names()) text += fmt::format("- `{}`\n", name);
  return text;
}

}  // namespace flow::cli
