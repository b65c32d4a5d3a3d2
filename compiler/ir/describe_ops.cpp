// Formats the descriptions of ops for readers.
#include "compiler/ir/describe_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/call_site.h"
#include "compiler/ir/rules.h"
#include "ops/core/check.h"
#include "runtime/base/text.h"

namespace flow {
namespace {

/// Returns true if the op makes a tensor of the same type as its one float operand, row by row,
/// with all attributes at their defaults. Layers do not count, because they need an entry to name
/// their variables after.
bool is_activation(const ops::OpSpec& op) {
  const Shape shape{2, 3};
  const ops::JobTypes job{.batch = 2};
  if (!op.infer || grad::rules_of(op).expand || op.operands.size() != 1 ||
      op.operands[0].variadic || !ops::accepts(op.operands[0], job.compute, job) ||
      std::ranges::any_of(op.attributes, &std::string_view::empty, &ops::AttributeSpec::fallback))
    return false;
  const Sources sources;
  Diags diags(sources);
  ir::Attributes attributes;
  if (!complete_attributes(op, op.name, {}, diags, attributes)) return false;
  ops::Call call({ops::Operand{job.compute, shape, 0}}, attributes, job);
  if (op.normalize) op.normalize(call, attributes);
  if (!call.failed()) op.infer(call);
  if (call.failed()) return false;
  const ops::Result& y = call.results()[0];
  return y.dtype == job.compute && y.shape == shape && y.batch_axis == 0;
}

std::string_view name_of(ops::Accepts accepts) {
  constexpr std::string_view kNames[] = {"any dtype", "float", "integer", "bool",
                                         "float or integer"};
  return kNames[static_cast<size_t>(accepts)];
}

std::string_view name_of(ops::AttributeType type) {
  constexpr std::string_view kNames[] = {
      "true or false",   "integer",       "number",   "text",     "integer or list",
      "integer or list", "list of pairs", "index",    "equation", "dtype",
      "padding",         "initializer",   "unary op", "{l1, l2}"};
  return kNames[static_cast<size_t>(type)];
}

/// Returns a type such as "valid | same" or "integer >= 1".
std::string type_of(const ops::AttributeSpec& attribute) {
  if (!attribute.choices.empty()) {
    std::vector<std::string> choices(attribute.choices.begin(), attribute.choices.end());
    return join(choices, " | ");
  }
  std::vector<std::string> bounds;
  constexpr double kLargest = 0x7FFFFFFF;  // the limit of all sizes, which is not shown
  if (attribute.min) bounds.push_back(fmt::format(">= {}", shortest(*attribute.min)));
  if (attribute.max && *attribute.max != kLargest)
    bounds.push_back(fmt::format("<= {}", shortest(*attribute.max)));
  if (attribute.below) bounds.push_back(fmt::format("< {}", shortest(*attribute.below)));
  std::string type(name_of(attribute.type));
  if (!bounds.empty()) type += " " + join(bounds, " and ");
  return type;
}

std::string default_of(const ops::OpSpec& op, const ops::AttributeSpec& attribute) {
  if (attribute.fallback.empty()) return "required";
  return fmt::format("default {}{}", op.attribute(attribute.fallback) ? "same as " : "",
                     attribute.fallback);
}

/// A table of two columns.
class Columns {
 public:
  void row(std::string left, std::string right) {
    width_ = std::max(width_, left.size());
    rows_.emplace_back(std::move(left), std::move(right));
  }
  std::string str() const {
    std::string text;
    for (const auto& [left, right] : rows_)
      text += fmt::format("  {:<{}}  {}\n", left, width_, right);
    return text;
  }
  bool empty() const { return rows_.empty(); }

 private:
  size_t width_ = 0;
  std::vector<std::pair<std::string, std::string>> rows_;
};

std::string section(std::string_view title, const Columns& columns) {
  return columns.empty() ? "" : fmt::format("\n{}\n{}", title, columns.str());
}

}  // namespace

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names{"none"};
    for (const ops::OpSpec* op : ops::written_specs())
      if (is_activation(*op)) names.emplace_back(op->name);
    return names;
  }();
  return kNames;
}

std::string attribute_type(const ops::AttributeSpec& attribute) { return type_of(attribute); }

std::string operand_type(const ops::OperandSpec& operand) {
  return fmt::format("{}{}{}", operand.variadic ? "list of " : "", name_of(operand.accepts),
                     operand.optional ? " (optional)" : "");
}

std::string list_ops() {
  Columns columns;
  for (const ops::OpSpec* op : ops::written_specs())
    columns.row(std::string(op->name), std::string(op->doc));
  return columns.str();
}

std::string describe(const ops::OpSpec& op,
                     std::span<const std::pair<std::string, std::string>> of_entries) {
  Columns operands, attributes, entry, results;
  for (const ops::OperandSpec& operand : op.operands)
    operands.row(
        std::string(operand.name),
        fmt::format("{}{}: {}{}", operand.variadic ? "list of " : "", name_of(operand.accepts),
                    operand.doc, operand.optional ? " (optional)" : ""));
  for (const ops::AttributeSpec& attribute : op.attributes)
    attributes.row(
        std::string(attribute.name),
        fmt::format("{}, {}: {}", type_of(attribute), default_of(op, attribute), attribute.doc));
  for (const auto& [key, text] : of_entries) entry.row(key, text);
  for (size_t i = 1; i < op.results.size(); ++i)
    results.row(fmt::format("NAME.{}", op.results[i].name), "secondary output");
  std::string text = fmt::format("{}: {}\n", op.name, op.doc);
  if (!op.formula.empty()) text += fmt::format("\n  {}\n", op.formula);
  return text + section("operands", operands) + section("attributes", attributes) +
         section("entry keys", entry) + section("results", results);
}

}  // namespace flow
