// A merged graph has the place of its first graph, which identifies the file.
#include "compiler/job/text/default_outputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/text/merge.h"

namespace flow::job {
namespace {

/// The graph of a network; null where it is not written out, or empty.
template <typename Node>
Node* graph_of(Node& network) {
  auto* graph = network.find("graph");
  return graph && !graph->entries.empty() ? graph : nullptr;
}

/// The last entry that is not a deletion, or null.
const yaml::Entry* last_entry(const yaml::Node& graph) {
  const auto found = std::find_if_not(graph.entries.rbegin(), graph.entries.rend(), is_deletion);
  return found == graph.entries.rend() ? nullptr : &*found;
}

std::pair<int32_t, uint32_t> place_of(const yaml::Node& graph) {
  return {graph.span.source, graph.span.begin};
}

/// The last entry that the file of the graph wrote; of other files where it wrote none.
const yaml::Entry& last_of_file(const yaml::Node& graph) {
  const auto is_of_file = [&](const yaml::Entry& entry) {
    return entry.value.span.source == graph.span.source;
  };
  const auto found = std::find_if(graph.entries.rbegin(), graph.entries.rend(), is_of_file);
  return found == graph.entries.rend() ? graph.entries.back() : *found;
}

}  // namespace

void DefaultOutputs::note(const yaml::Node& file) {
  const yaml::Node* networks = file.find("networks");
  if (!networks) return;
  for (const yaml::Entry& network : networks->entries)
    if (const yaml::Node* graph = graph_of(network.value))
      if (const yaml::Entry* last = last_entry(*graph))
        last_[place_of(*graph)] = {last->key, last->key_span};
}

void DefaultOutputs::write(Reader& reader, yaml::Node& file) const {
  if (yaml::Node* networks = file.find("networks"))
    for (yaml::Entry& network : networks->entries) write_output(reader, network);
}

void DefaultOutputs::write_output(Reader& reader, yaml::Entry& network) const {
  const yaml::Node* graph = graph_of(network.value);
  if (!graph || network.value.find("output")) return;
  const auto known = last_.find(place_of(*graph));
  if (known == last_.end()) return;
  const Name& first = known->second;
  const yaml::Entry& last = graph->entries.back();
  if (last.key == first.text) return;
  const bool kept = graph->find(first.text) != nullptr;
  const std::string output = kept ? first.text : last_of_file(*graph).key;
  if (kept)
    reader.diags
        .warning(Diagnosis::kDefaultOutput, last.key_span,
                 fmt::format("`{}` is added to network `{}`, but the network still returns `{}`",
                             last.key, network.key, output))
        .label(first.span, "last entry of the file that begins the graph")
        .with_hint(
            fmt::format("write `output: {}` or `output: {}` in the network", output, last.key));
  else
    reader.diags
        .warning(Diagnosis::kDefaultOutput, network.key_span,
                 fmt::format("network `{}` returns `{}`, because its last entry `{}` is deleted",
                             network.key, output, first.text))
        .label(first.span, "the deleted entry")
        .with_hint(fmt::format("write `output: {}` in the network", output));
  network.value.entries.push_back({"output", first.span, yaml::scalar_node(output, first.span)});
}

}  // namespace flow::job
