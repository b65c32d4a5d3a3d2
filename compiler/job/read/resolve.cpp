// Looks up calls without reading them, and resolves files in place: first the sections, then the
// graphs, in which other names can hide variables.

#include <algorithm>
#include <set>

#include "compiler/job/read/sections.h"
#include "runtime/base/names.h"
#include "runtime/plan/model/environment_text.h"

namespace flow::job {
namespace {

/// Collects the names in texts that were left unchanged.
void collect_names(const yaml::Node& node, const Locals& locals, std::set<std::string>& names) {
  for (const yaml::Node& item : node.items) collect_names(item, locals, names);
  for (const yaml::Entry& entry : node.entries)
    if (entry.key != "note") collect_names(entry.value, locals, names);
  if (node.resolved || node.scalar.find('$') == std::string::npos) return;
  const std::string_view text = node.scalar;
  for (size_t begin = 0, length = 0; begin < text.size(); begin += length + 1) {
    length = name_length(text.substr(begin));
    const std::string name(text.substr(begin, length));
    if (std::ranges::find(locals, name, &Local::name) == locals.end()) names.insert(name);
  }
}

/// Doubles the dollar signs in texts whose variables were substituted. In commands and variables,
/// writes references to the environment instead of their values.
void say_dollars(yaml::Node& node, bool unexpanded = false) {
  for (yaml::Node& item : node.items) say_dollars(item, unexpanded);
  for (yaml::Entry& entry : node.entries)
    say_dollars(entry.value,
                unexpanded || entry.key == "vars" || (entry.key == "env" && is_command(node)));
  if (!node.resolved || !node.is_scalar()) return;
  node.scalar = unexpanded && !node.unexpanded.empty() ? node.unexpanded
                                                       : plan::with_doubled_dollars(node.scalar);
}

class Resolver {
 public:
  Resolver(Reader& reader, yaml::Node& file)
      : reader_(reader), file_(file), variables_(reader, file) {}

  void run() {
    put_in(variables_, file_);
    if (yaml::Node* networks = file_.find("networks"))
      for (yaml::Entry& entry : networks->entries)
        if (entry.value.is_mapping()) resolve_signature(entry.value);
    if (yaml::Node* networks = file_.find("networks"))
      for (yaml::Entry& entry : networks->entries)
        if (entry.value.is_mapping()) resolve_body(entry.value);
    if (yaml::Node* jobs = file_.find("jobs"))
      for (yaml::Entry& entry : jobs->entries)
        if (yaml::Node* graph = entry.value.find("graph")) resolve_graph(*graph, {}, {});
    drop_variables();
    say_dollars(file_);
    const auto version = std::ranges::find(file_.entries, "flow", &yaml::Entry::key);
    std::rotate(file_.entries.begin(), version, version + 1);  // before included keys
  }

 private:
  void resolve_signature(yaml::Node& network) {
    if (yaml::Node* inputs = network.find("inputs")) variables_.substitute(*inputs);
    if (yaml::Node* params = network.find("params")) variables_.substitute(*params);
  }

  void resolve_body(yaml::Node& network) {
    Locals locals;
    if (const yaml::Node* params = network.find("params"))
      for (const yaml::Entry& param : params->entries) locals.push_back({param.key, {}});
    if (yaml::Node* graph = network.find("graph"))
      resolve_graph(*graph, locals, only_input(network));
    if (yaml::Node* output = network.find("output")) {
      variables_.substitute(*output, locals);
      collect_names(*output, locals, used_);
    }
  }

  void resolve_graph(yaml::Node& graph, const Locals& locals, std::optional<std::string> first) {
    if (graph.is_scalar()) variables_.substitute(graph, locals);
    const auto above = entries_above(graph, first, reader_.sources);
    for (size_t i = 0; i < graph.entries.size(); ++i) {
      yaml::Node& entry = graph.entries[i].value;
      resolve_entry(entry, locals);
      if (above[i] != first && above[i] && reads_above(file_, entry))
        say_what_is_read(entry, *above[i]);
      first = graph.entries[i].key;
    }
  }

  void resolve_entry(yaml::Node& entry, Locals locals) {
    if (entry.is_scalar()) variables_.substitute(entry, locals);
    if (yaml::Node* repeat = entry.find("repeat")) {
      variables_.substitute(*repeat, locals);
      locals.insert(locals.begin(), {"index", {}});
    }
    variables_.substitute(entry, locals);
    collect_names(entry, locals, used_);
  }

  void drop_variables() {
    yaml::Node* vars = file_.find("vars");
    if (!vars) return;
    std::erase_if(vars->entries, [this](const yaml::Entry& e) { return !used_.contains(e.key); });
    if (vars->entries.empty()) file_.erase("vars");
  }

  Reader& reader_;
  yaml::Node& file_;
  Variables variables_;
  std::set<std::string> used_;
};

}  // namespace

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
  if (!inputs) return !callee.network;  // it may be any op or network
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

void put_in(Variables& variables, yaml::Node& file) {
  for (yaml::Entry& section : file.entries) {
    if (section.key == "note" || section.key == "vars") continue;
    const bool parts = section.key == "networks" || section.key == "jobs";
    if (!parts || !section.value.is_mapping()) variables.substitute(section.value);
    if (section.key != "jobs") continue;
    for (yaml::Entry& job : section.value.entries) {
      if (!job.value.is_mapping()) variables.substitute(job.value);
      for (yaml::Entry& field : job.value.entries)
        if (field.key != "note" && (field.key != "graph" || !field.value.is_mapping()))
          variables.substitute(field.value);
    }
  }
}

void resolve(Reader& reader, yaml::Node& file) { Resolver(reader, file).run(); }

}  // namespace flow::job
