// What tests need to know of ops, as JSON.
#include "cli/reference/manuals.h"
#include "compiler/ir/describe_ops.h"
#include "ops/core/spec.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

std::string_view name_of(ops::Domain domain) {
  switch (domain) {
    case ops::Domain::kUnit:
      return "unit";
    case ops::Domain::kWide:
      return "wide";
    case ops::Domain::kPositive:
      return "positive";
    case ops::Domain::kInside:
      return "inside";
    case ops::Domain::kAboveOne:
      return "above_one";
  }
  return {};
}

OrderedJson record_of(const ops::OpSpec& op) {
  OrderedJson operands = OrderedJson::array(), attributes = OrderedJson::array();
  for (const ops::OperandSpec& operand : op.operands)
    operands.push_back({{"name", operand.name}, {"type", operand_type(operand)}});
  for (const ops::AttributeSpec& attribute : op.attributes)
    attributes.push_back({{"name", attribute.name},
                          {"type", attribute_type(attribute)},
                          {"default", attribute.fallback}});
  return {{"name", op.name},          {"operands", operands},
          {"attributes", attributes}, {"domain", name_of(op.domain)},
          {"numpy", op.numpy},        {"examples", op.examples}};
}

}  // namespace

std::vector<GeneratedFile> op_records() {
  OrderedJson records = OrderedJson::array();
  for (const ops::OpSpec* op : ops::written_specs())
    if (!op->examples.empty()) records.push_back(record_of(*op));
  return {{"ops.json", records.dump(2)}};
}

}  // namespace flow::cli
