// `networks:` and `graph:`: ordered entries, what each reads by default, and which calls which.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/job/sections.h"
#include "compiler/job/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

std::vector<Name> read_input_names(Reader& reader, const yaml::Node& node) {
  std::vector<Name> names;
  if (!reader.expect(node, yaml::Kind::kList, "`inputs` of a network")) return names;
  std::set<std::string> seen;
  for (const yaml::Node& item : node.items) {
    if (!reader.expect(item, yaml::Kind::kScalar, "an input's name")) continue;
    const Name name{item.scalar, item.span};
    reader.check_name(name);
    if (seen.insert(name.text).second)
      names.push_back(name);
    else
      reader.error(Diagnosis::kNameTaken, name.span,
                   fmt::format("the input `{}` stands here twice", name.text));
  }
  return names;
}

/// The first part of a network: what callers must know of it.
Network read_signature(Reader& reader, const yaml::Entry& entry) {
  Network network;
  network.name = {entry.key, entry.key_span};
  reader.check_name(network.name);
  if (const OpDef* op = find_op(entry.key); op && !op->internal)
    reader.error(Diagnosis::kNameTaken, entry.key_span,
                 fmt::format("`{}` is an op; a network cannot have its name", entry.key));
  const Fields fields(reader, entry.value, entry.key_span, "a network",
                      {"inputs", "graph", "output"});
  if (const yaml::Node* inputs = fields.require("inputs"))
    network.inputs = read_input_names(reader, *inputs);
  fields.require("graph");
  return network;
}

void read_output(Reader& reader, const yaml::Node* node, const std::string& last,
                 Network& network) {
  const auto named = [](const Entry& entry) { return entry.name.text; };
  if (!node) {
    const auto found = std::ranges::find(network.graph.entries, last, named);
    if (found != network.graph.entries.end()) network.output = found->name;
    return;
  }
  if (!reader.expect(*node, yaml::Kind::kScalar, "`output`")) return;
  std::vector<std::string> names;
  for (const Entry& entry : network.graph.entries) names.push_back(entry.name.text);
  if (std::ranges::find(names, node->scalar) != names.end()) {
    network.output = {node->scalar, node->span};
    return;
  }
  reader
      .error(Diagnosis::kUnknownTensor, *node,
             fmt::format("`output` is `{}`, which is no entry of `{}`", node->scalar,
                         network.name.text))
      .with_hint(suggestion(node->scalar, names, "its entries are"));
}

/// Reports each network that calls itself, by way of others or directly, and poisons the call.
class RecursionCheck {
 public:
  RecursionCheck(Reader& reader, std::vector<Network>& networks)
      : reader_(reader), networks_(networks), state_(networks.size(), State::kNew) {}

  void run() {
    for (size_t i = 0; i < networks_.size(); ++i) visit(i);
  }

 private:
  enum class State { kNew, kOpen, kDone };

  void visit(size_t index) {
    if (state_[index] != State::kNew) return;
    constexpr size_t kMaxDepth = 64;
    if (path_.size() == kMaxDepth) {
      reader_.error(Diagnosis::kNesting, networks_[index].name.span,
                    fmt::format("networks call each other more than {} deep", kMaxDepth));
      for (Entry& entry : networks_[index].graph.entries) entry.poisoned = true;
      return;
    }
    state_[index] = State::kOpen;
    path_.push_back(networks_[index].name.text);
    for (Entry& entry : networks_[index].graph.entries) {
      if (!entry.network) continue;
      if (state_[*entry.network] == State::kOpen)
        report(entry);
      else
        visit(*entry.network);
    }
    path_.pop_back();
    state_[index] = State::kDone;
  }

  void report(Entry& entry) {
    const auto from = std::ranges::find(path_, entry.op.text);
    std::vector<std::string> cycle(from, path_.end());
    cycle.push_back(entry.op.text);
    reader_.error(
        Diagnosis::kRecursion, entry.op.span,
        fmt::format("the network `{}` calls itself: {}", entry.op.text, join(cycle, " -> ")));
    entry.poisoned = true;
  }

  Reader& reader_;
  std::vector<Network>& networks_;
  std::vector<State> state_;
  std::vector<std::string> path_;
};

}  // namespace

Graph read_graph(Reader& reader, const yaml::Node* node, const std::vector<Name>& inputs,
                 const std::vector<Network>& networks, bool in_job) {
  Graph graph;
  if (!node || !reader.expect(*node, yaml::Kind::kMapping, "`graph`")) return graph;
  std::optional<std::string> above;
  if (!in_job && inputs.size() == 1) above = inputs[0].text;
  for (const yaml::Entry& field : node->entries) {
    const bool from_file = field.value.span.source == reader.file;
    graph.entries.push_back(read_entry(reader, field, networks, from_file ? above : std::nullopt));
    Entry& entry = graph.entries.back();
    reader.check_name(entry.name);
    for (const Name& input : inputs)
      if (input.text == entry.name.text)
        reader
            .error(Diagnosis::kNameTaken, entry.name.span,
                   fmt::format("`{}` is an input; an entry cannot have its name", input.text))
            .label(input.span, "the input");
    if (from_file) above = entry.name.text;
  }
  order_entries(reader, graph, inputs);
  return graph;
}

std::vector<Network> read_networks(Reader& reader, const yaml::Node& node) {
  std::vector<Network> networks;
  if (!reader.expect(node, yaml::Kind::kMapping, "`networks`")) return networks;
  for (const yaml::Entry& entry : node.entries)
    if (entry.key != "note") networks.push_back(read_signature(reader, entry));
  size_t next = 0;
  for (const yaml::Entry& entry : node.entries) {
    if (entry.key == "note") continue;
    Network& network = networks[next++];
    const yaml::Node* graph = entry.value.is_mapping() ? entry.value.find("graph") : nullptr;
    if (!graph || !graph->is_mapping()) {
      read_graph(reader, graph, network.inputs, networks, false);
      continue;
    }
    network.graph = read_graph(reader, graph, network.inputs, networks, false);
    if (graph->entries.empty())
      reader.error(Diagnosis::kMissingKey, entry.key_span,
                   fmt::format("the network `{}` has no entries", entry.key));
    else
      read_output(reader, entry.value.find("output"), graph->entries.back().key, network);
  }
  RecursionCheck(reader, networks).run();
  return networks;
}

}  // namespace flow::job
