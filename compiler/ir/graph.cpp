// Look-ups in a graph, and replacing its nodes.
#include "compiler/ir/graph.h"

namespace flow::ir {

void Graph::set_nodes(std::vector<Node> replaced) {
  for (Value& value : values) value.producer = NodeId();
  nodes = std::move(replaced);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId result : nodes[i].results) (*this)[result].producer = NodeId(i);
}

void Graph::move_last(const std::vector<size_t>& before) {
  const size_t old = nodes.size() - before.size();
  std::vector<std::vector<size_t>> moved(old + 1);
  for (size_t i = 0; i < before.size(); ++i) moved[before[i]].push_back(old + i);
  std::vector<Node> placed;
  for (size_t i = 0; i <= old; ++i) {
    for (const size_t node : moved[i]) {
      nodes[node].once |= i < old ? nodes[i].once : !placed.empty() && placed.back().once;
      placed.push_back(std::move(nodes[node]));
    }
    if (i < old) placed.push_back(std::move(nodes[i]));
  }
  set_nodes(std::move(placed));
}

ValueId Graph::find(std::string_view name) const {
  for (; index_.values < values.size(); ++index_.values)
    index_.by_name.emplace(values[index_.values].name, ValueId(index_.values));
  for (; index_.aliases < aliases.size(); ++index_.aliases)
    index_.by_name.emplace(aliases[index_.aliases].name, aliases[index_.aliases].value);
  const auto found = index_.by_name.find(std::string(name));
  return found == index_.by_name.end() ? ValueId() : found->second;
}

ValueId Graph::gradient_of(ValueId value) const {
  for (; index_.gradients < gradients.size(); ++index_.gradients) {
    const auto& [of, gradient] = gradients[index_.gradients];
    index_.gradient_of.emplace(of.value, gradient);
  }
  const auto found = index_.gradient_of.find(value.value);
  return found == index_.gradient_of.end() ? ValueId() : found->second;
}

const Variable* Graph::variable_of(ValueId value) const {
  for (; index_.variables < variables.size(); ++index_.variables)
    index_.variable_of.emplace(variables[index_.variables].value.value, index_.variables);
  const auto found = index_.variable_of.find(value.value);
  return found == index_.variable_of.end() ? nullptr : &variables[found->second];
}

bool Graph::is_own(ValueId value) const {
  const Node* producer = producer_of(value);
  const Value& made = (*this)[value];
  return producer && producer->per_shard && made.batch_axis == kBatchReduced && !made.combine;
}

Shape Graph::shape_of_shard(ValueId value) const {
  const int axis = (*this)[value].batch_axis;
  Shape shape = (*this)[value].shape;
  if (axis >= 0 && !cut) shape[axis] /= shards;
  return shape;
}

void Graph::set_updated(ValueId variable, ValueId updated) {
  variables[static_cast<size_t>(variable_of(variable) - variables.data())].updated = updated;
}

}  // namespace flow::ir
