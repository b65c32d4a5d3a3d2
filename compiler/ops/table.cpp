// The table of ops, put together from its families.
#include <algorithm>
#include <map>

#include "compiler/grad/rules.h"
#include "compiler/ops/families.h"
#include "ops/families.h"

namespace flow {
namespace {

using Defs = std::vector<OpDef>;

/// The op of a record and of the compiler's rules.
OpDef def_of(const ops::OpSpec& spec) {
  const grad::Rules rules = grad::rules_of(spec.name);
  OpDef def{.name = spec.name,
            .doc = spec.doc,
            .formula = spec.formula,
            .operands = spec.operands,
            .attributes = spec.attributes,
            .results = {},
            .gradient = rules.gradient,
            .expand = rules.expand,
            .spec = &spec,
            .takes_variables = spec.takes_variables,
            .trains_otherwise = spec.trains_otherwise,
            .port_gradients = spec.port_gradients,
            .elementwise = spec.elementwise,
            .internal = spec.internal,
            .examples = spec.examples};
  for (const ops::ResultSpec& result : spec.results) def.results.push_back(result.name);
  return def;
}

Defs defs_of(std::span<const ops::OpSpec> family) {
  Defs defs;
  for (const ops::OpSpec& spec : family) defs.push_back(def_of(spec));
  return defs;
}

Defs defs_of(std::span<const OpDef> family) { return {family.begin(), family.end()}; }

const Defs& all_defs() {
  static const Defs kAll = [] {
    Defs all;
#define FLOW_OPS(family) \
  for (const OpDef& def : defs_of(defs::family())) all.push_back(def);
#define FLOW_SPECS(family) \
  for (const OpDef& def : defs_of(ops::family())) all.push_back(def);
#include "compiler/ops/ops.def"
    return all;
  }();
  return kAll;
}

}  // namespace

const AttributeDef* OpDef::attribute(std::string_view attribute_name) const {
  const auto found = std::ranges::find(attributes, attribute_name, &AttributeDef::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::string result_name(const OpDef& op, size_t i) {
  const std::string_view name = op.results[std::min(i, op.results.size() - 1)];
  if (!name.ends_with('*')) return std::string(name);
  return std::string(name.substr(0, name.size() - 1)) + std::to_string(i);
}

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> kAll = [] {
    std::vector<const OpDef*> all;
    for (const OpDef& op : all_defs()) all.push_back(&op);
    return all;
  }();
  return kAll;
}

const OpDef* find_op(std::string_view name) {
  static const std::map<std::string_view, const OpDef*> kByName = [] {
    std::map<std::string_view, const OpDef*> by_name;
    for (const OpDef* op : all_ops()) by_name.emplace(op->name, op);
    return by_name;
  }();
  const auto found = kByName.find(name);
  return found == kByName.end() ? nullptr : found->second;
}

std::vector<const OpDef*> written_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops())
    if (!op->internal) ops.push_back(op);
  return ops;
}

const OpDef* find_written_op(std::string_view name) {
  const OpDef* op = find_op(name);
  return op && !op->internal ? op : nullptr;
}

}  // namespace flow
