// Calls looked up without reading them.
#include "compiler/job/read/callee.h"

#include <algorithm>

namespace flow::job {

Callee callee_of(const yaml::Node& file, const yaml::Node& entry) {
  const yaml::Node* op = entry.find("op");
  if (!op || !op->is_scalar()) return {};
  if (const ops::OpSpec* def = ops::find_written_spec(op->scalar)) return {def, nullptr};
  const yaml::Node* networks = file.find("networks");
  return {nullptr, networks ? networks->find(op->scalar) : nullptr};
}

std::optional<std::string> only_input(const yaml::Node& network) {
  const yaml::Node* inputs = network.find("inputs");
  if (!inputs || inputs->items.size() != 1) return {};
  return inputs->items[0].scalar;
}

bool reads_above_by_default(const yaml::Node& file, const yaml::Node& entry) {
  const Callee callee = callee_of(file, entry);
  if (callee.op) {
    const auto& operands = callee.op->operands;
    return !operands.empty() && !operands[0].optional &&
           (operands[0].name == "in" || !entry.find(operands[0].name));
  }
  const yaml::Node* inputs = callee.network ? callee.network->find("inputs") : nullptr;
  if (!inputs) return !callee.network;  // it may be any
  return !inputs->items.empty() && !entry.find(inputs->items[0].scalar);
}

bool reads_above(const yaml::Node& file, const yaml::Node& entry) {
  return entry.is_mapping() && !entry.find("in") && reads_above_by_default(file, entry);
}

void say_what_is_read(yaml::Node& entry, const std::string& name) {
  const auto op = std::ranges::find(entry.entries, "op", &yaml::Entry::key);
  entry.entries.insert(op == entry.entries.end() ? op : op + 1,
                       {"in", {}, yaml::scalar_node(name)});
}

}  // namespace flow::job
