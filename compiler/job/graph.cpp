// `graph:`: ordered entries, what each reads by default, and their copies.
#include <fmt/format.h>

#include <map>

#include "compiler/job/sections.h"
#include "compiler/job/tables.h"
#include "compiler/job/values.h"

namespace flow::job {
namespace {

class GraphReader {
 public:
  GraphReader(Reader& reader, const std::vector<Name>& inputs, Networks& networks,
              const Locals& locals)
      : reader_(reader), inputs_(inputs), networks_(networks), locals_(locals) {}

  Graph read(const yaml::Node& node, bool in_job) {
    Graph graph;
    std::optional<std::string> first;
    if (!in_job && inputs_.size() == 1) first = inputs_[0].text;
    const auto above = entries_above(node, first, reader_.sources);
    for (size_t i = 0; i < node.entries.size(); ++i) {
      graph.entries.push_back(read_field(node.entries[i], above[i]));
      check_name(graph.entries.back().name);
    }
    order_entries(reader_, graph, inputs_);
    return graph;
  }

 private:
  Entry read_field(const yaml::Entry& field, const std::optional<std::string>& above) {
    yaml::Entry once = field;
    if (once.value.is_scalar()) networks_.variables().substitute(once.value, locals_);
    yaml::Node* repeat = once.value.is_mapping() ? once.value.find("repeat") : nullptr;
    if (repeat) return read_repeated(once, *repeat, above);
    networks_.variables().substitute(once.value, locals_);
    return read_entry(reader_, once, networks_, above);
  }

  Entry read_repeated(const yaml::Entry& field, yaml::Node& repeat,
                      const std::optional<std::string>& above) {
    networks_.variables().substitute(repeat, locals_);
    const auto count =
        read_integer(reader_, repeat, "`repeat`", find_key(call_keys(), "repeat")->bounds);
    std::vector<Entry> copies;
    for (int64_t i = 0; i < count.value_or(1); ++i) {
      if (!networks_.variables().may_copy(field.value, field.key_span)) break;
      copies.push_back(read_copy(field, i, above));
      if (copies.back().poisoned) break;  // the others would be wrong likewise
    }
    Entry entry = copies.empty() ? Entry{} : copies.front();
    entry.name = {field.key, field.key_span};
    entry.poisoned = !count || copies.empty() || copies.back().poisoned;
    if (!entry.poisoned) check_chain(entry, repeat.span);
    for (size_t i = 1; i < copies.size(); ++i)
      entry.operands.insert(entry.operands.end(), copies[i].operands.begin(),
                            copies[i].operands.end());
    entry.copies = std::move(copies);
    return entry;
  }

  Entry read_copy(const yaml::Entry& field, int64_t index,
                  const std::optional<std::string>& above) {
    Locals locals{{"index", yaml::scalar_node(std::to_string(index), field.key_span)}};
    locals.insert(locals.end(), locals_.begin(), locals_.end());
    yaml::Entry copy = field;
    networks_.variables().substitute(copy.value, locals);
    const size_t notes = reader_.notes.size();
    Entry entry = read_entry(reader_, copy, networks_, above);
    if (index > 0) reader_.notes.resize(notes);
    return entry;
  }

  void check_chain(Entry& entry, Span repeat) {
    if (!entry.operands.empty() && entry.operands[0].given) return;
    entry.poisoned = true;
    reader_
        .error(Diagnosis::kOperandCount, repeat,
               fmt::format("{}: `repeat` chains copies by their first operand, and there is none",
                           entry.name.text))
        .with_hint("write the entry several times");
  }

  void check_name(const Name& name) {
    reader_.check_name(name);
    for (const Name& input : inputs_)
      if (input.text == name.text)
        reader_
            .error(Diagnosis::kNameTaken, name.span,
                   fmt::format("`{}` is an input; an entry cannot have its name", input.text))
            .label(input.span, "the input");
  }

  Reader& reader_;
  const std::vector<Name>& inputs_;
  Networks& networks_;
  const Locals& locals_;
};

}  // namespace

std::vector<std::optional<std::string>> entries_above(const yaml::Node& graph,
                                                      std::optional<std::string> first,
                                                      const Sources& sources) {
  std::map<int32_t, std::map<uint32_t, size_t>> files;  // their entries by where they stand
  for (size_t i = 0; i < graph.entries.size(); ++i) {
    const Span key = graph.entries[i].key_span, value = graph.entries[i].value.span;
    files[key.source][key.begin] = i;
    if (value.source != key.source) files[value.source][value.begin] = i;
  }
  std::vector<std::optional<std::string>> above(graph.entries.size());
  for (const auto& [file, entries] : files) {
    if (file < 0 || !sources[file].is_file()) continue;
    std::optional<std::string> last = first;
    for (const auto& [place, i] : entries) {
      const yaml::Entry& entry = graph.entries[i];
      if (entry.value.span.source == file) above[i] = last;
      last = entry.key;
    }
  }
  return above;
}

Graph read_graph(Reader& reader, const yaml::Node* node, const std::vector<Name>& inputs,
                 Networks& networks, const Locals& locals, bool in_job) {
  if (!node || !reader.expect(*node, yaml::Kind::kMapping, "`graph`")) return {};
  return GraphReader(reader, inputs, networks, locals).read(*node, in_job);
}

}  // namespace flow::job
