// The table of ops, put together from its families.
#include <algorithm>
#include <map>

#include "compiler/ops/families.h"

namespace flow {
namespace {

using Family = decltype(&ops::dense);

constexpr Family kFamilies[] = {
#define FLOW_OPS(family) ops::family,
#include "compiler/ops/ops.def"
#undef FLOW_OPS
};

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
    for (const Family family : kFamilies)
      for (const OpDef& op : family()) all.push_back(&op);
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
