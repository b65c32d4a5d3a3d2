// Reads `graph:`: the entries, their default operands, and their copies. Sorts the entries so that
// each runs after those that it reads, and otherwise in the order of the file.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

class Sorter {
 public:
  Sorter(Reader& reader, Graph& graph, const std::vector<Name>& inputs)
      : reader_(reader), graph_(graph), state_(graph.entries.size(), State::kNew) {
    for (const Name& input : inputs) names_.push_back(input.text);
    inputs_ = inputs.size();
    for (size_t i = 0; i < graph.entries.size(); ++i) {
      const std::string& name = graph.entries[i].name.text;
      if (std::ranges::count(inputs, name, &Name::text) == 0) names_.push_back(name);
      index_.emplace(graph.entries[i].name.text, i);
    }
  }

  void run() {
    find_reads();
    std::vector<Entry> sorted;
    for (size_t i = 0; i < graph_.entries.size(); ++i) visit(i);
    for (const size_t i : order_) sorted.push_back(std::move(graph_.entries[i]));
    graph_.entries = std::move(sorted);
  }

 private:
  enum class State { kNew, kOpen, kDone };
  struct Read {
    size_t entry;
    Span span;
  };

  /// Determines which entries each entry reads. Unknown names are errors.
  void find_reads() {
    reads_.resize(graph_.entries.size());
    for (size_t i = 0; i < graph_.entries.size(); ++i) {
      for (const Operand& operand : graph_.entries[i].operands)
        if (operand.given) find_read(i, operand);
      if (const auto& owner = graph_.entries[i].variables) find_owner(i, *owner);
      for (const Entry& copy : graph_.entries[i].copies)
        if (copy.variables) find_owner(i, *copy.variables);
    }
  }

  /// Orders an entry after the entry whose variables it uses.
  void find_owner(size_t reader_entry, const Name& owner) {
    const std::string first = owner.text.substr(0, owner.text.find('/'));
    if (const auto found = index_.find(first); found != index_.end()) {
      reads_[reader_entry].push_back({found->second, owner.span});
      return;
    }
    Entry& entry = graph_.entries[reader_entry];
    entry.has_error = true;
    std::vector<std::string> others;
    for (const auto& [name, index] : index_)
      if (index != reader_entry) others.push_back(name);
    reader_
        .error(Diagnosis::kUnknownTensor, owner.span, "{}: unknown entry `{}` in `variables`",
               entry.name.text, first)
        .with_hint(suggestion(first, others, "available entries:"));
  }

  void find_read(size_t reader_entry, const Operand& operand) {
    if (parse_number(operand.text)) return;
    const std::string first = operand.text.substr(0, operand.text.find_first_of("/."));
    const auto inputs_end = names_.begin() + static_cast<std::ptrdiff_t>(inputs_);
    const bool whole = first.size() == operand.text.size();
    const bool input = std::find(names_.begin(), inputs_end, first) != inputs_end;
    if (whole && input) return;
    if (const auto found = index_.find(first); found != index_.end()) {
      reads_[reader_entry].push_back({found->second, operand.span});
      return;
    }
    Entry& entry = graph_.entries[reader_entry];
    entry.has_error = true;
    if (input) {
      reader_.error(Diagnosis::kUnknownTensor, operand.span,
                    "{}: unknown tensor `{}`; `{}` is an input", entry.name.text, operand.text,
                    first);
      return;
    }
    const bool starts_as_number = operand.text.find_first_of("0123456789") <= 1;
    if (const std::string hint = number_hint(operand.text); starts_as_number && !hint.empty()) {
      reader_
          .error(Diagnosis::kUnknownTensor, operand.span,
                 "{}: `{}` is neither a number nor a tensor", entry.name.text, operand.text)
          .with_hint(hint);
      return;
    }
    std::vector<std::string> others = names_;
    std::erase(others, entry.name.text);
    const bool indexed =
        std::ranges::find(others, first.substr(0, first.find('['))) != others.end();
    reader_
        .error(Diagnosis::kUnknownTensor, operand.span, "{}: unknown input or entry `{}`",
               entry.name.text, first)
        .with_hint(indexed ? "use a dot for secondary outputs, as in `parts.out1`, and "
                             "`op: slice` for a part of a tensor"
                           : suggestion(first, others, "available names:"));
  }

  /// Visits entries depth first, with an explicit stack, because graphs can contain long chains.
  void visit(size_t root) {
    if (state_[root] != State::kNew) return;
    std::vector<std::pair<size_t, size_t>> stack{{root, 0}};  // an entry, and its next read
    state_[root] = State::kOpen;
    while (!stack.empty()) {
      const auto [entry, next] = stack.back();
      if (next == reads_[entry].size()) {
        state_[entry] = State::kDone;
        order_.push_back(entry);
        stack.pop_back();
        continue;
      }
      ++stack.back().second;
      const Read read = reads_[entry][next];
      if (state_[read.entry] == State::kOpen) {
        report_cycle(stack, read);
      } else if (state_[read.entry] == State::kNew) {
        state_[read.entry] = State::kOpen;
        stack.emplace_back(read.entry, 0);
      }
    }
  }

  void report_cycle(const std::vector<std::pair<size_t, size_t>>& stack, const Read& read) {
    std::vector<std::string> cycle;
    const auto start = std::ranges::find(stack, read.entry, [](const auto& s) { return s.first; });
    for (auto at = start; at != stack.end(); ++at) {
      cycle.push_back(graph_.entries[at->first].name.text);
      graph_.entries[at->first].has_error = true;
    }
    cycle.push_back(cycle.front());
    reader_.error(Diagnosis::kCycle, read.span, "cyclic dependency: {}", join(cycle, " <- "));
  }

  Reader& reader_;
  Graph& graph_;
  std::vector<State> state_;
  // The inputs, followed by the entries that do not have the name of an input.
  std::vector<std::string> names_;
  size_t inputs_ = 0;
  std::map<std::string, size_t> index_;
  std::vector<std::vector<Read>> reads_;
  std::vector<size_t> order_;
};

/// Reports unknown operands and cycles, marks the entries with them as erroneous, and sorts the
/// entries.
void order_entries(Reader& reader, Graph& graph, const std::vector<Name>& inputs) {
  Sorter(reader, graph, inputs).run();
}

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
    for (const Entry& entry : graph.entries) copies_.emplace(entry.name.text, entry.copies.size());
    for (Entry& entry : graph.entries) read_all_copies(entry);
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
        read_integer(reader_, repeat, "`repeat`", find_key(kCallKeys, "repeat")->bounds);
    std::vector<Entry> copies;
    for (int64_t i = 0; i < count.value_or(1); ++i) {
      if (!networks_.variables().may_copy(field.value, field.key_span)) break;
      copies.push_back(read_copy(field, i, above));
      if (copies.back().has_error) break;  // the other copies would have the same error
    }
    Entry entry = copies.empty() ? Entry{} : copies.front();
    entry.name = {field.key, field.key_span};
    entry.has_error = !count || copies.empty() || copies.back().has_error;
    if (!entry.has_error) check_chain(entry, repeat.span);
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

  /// Replaces `cell/*`, or `cell/*/part`, by one operand for each copy of `cell`.
  void read_all_copies(Entry& entry) {
    for (Entry& copy : entry.copies) read_all_copies(copy);
    if (!entry.copies.empty()) {
      entry.operands.clear();
      for (const Entry& copy : entry.copies)
        entry.operands.insert(entry.operands.end(), copy.operands.begin(), copy.operands.end());
      return;
    }
    std::vector<Operand> operands;
    for (const Operand& operand : entry.operands) {
      const size_t star = operand.text.find("/*");
      if (star == std::string::npos)
        operands.push_back(operand);
      else if (!add_copies(entry, operand, star, operands))
        entry.has_error = true;
    }
    entry.operands = std::move(operands);
    entry.spans.operands.clear();
    for (const Operand& operand : entry.operands) entry.spans.operands.push_back(operand.span);
  }

  /// Appends one operand for each copy. Returns false after an error.
  bool add_copies(const Entry& entry, const Operand& operand, size_t star,
                  std::vector<Operand>& operands) {
    const std::string name = operand.text.substr(0, star), part = operand.text.substr(star + 2);
    const auto copies = copies_.find(name);
    if (copies == copies_.end()) {
      operands.push_back(operand);  // is reported together with all unknown names
      return true;
    }
    if (copies->second == 0) {
      reader_
          .error(Diagnosis::kUnknownTensor, operand.span,
                 "{}: `{}` reads the copies of `{}`, which has no `repeat`", entry.name.text,
                 operand.text, name)
          .with_hint(
              "use `cell/*` for `cell/0`, `cell/1` and so on of an entry `cell` with `repeat`");
      return false;
    }
    const auto& defs = entry.def ? entry.def->operands : std::vector<ops::OperandSpec>{};
    if (defs.empty() || !defs.back().variadic || operands.size() + 1 < defs.size()) {
      reader_
          .error(Diagnosis::kOperandCount, operand.span, "{}: `{}` is {}; `{}` takes one here",
                 entry.name.text, operand.text, counted(copies->second, "operand"), entry.op.text)
          .with_hint("use `stack` or `concat` to join them");
      return false;
    }
    const yaml::Node one = yaml::scalar_node(operand.text, operand.span);
    for (size_t i = 0; i < copies->second; ++i) {
      if (!networks_.variables().may_copy(one, operand.span)) return false;
      operands.push_back({fmt::format("{}/{}{}", name, i, part), operand.span});
    }
    return true;
  }

  void check_chain(Entry& entry, Span repeat) {
    if (!entry.operands.empty() && entry.operands[0].given) return;
    entry.has_error = true;
    reader_
        .error(Diagnosis::kOperandCount, repeat,
               "{}: `repeat` requires a first operand to chain the copies", entry.name.text)
        .with_hint("write the entry several times");
  }

  void check_name(const Name& name) {
    reader_.check_name(name);
    for (const Name& input : inputs_)
      if (input.text == name.text)
        reader_
            .error(Diagnosis::kNameTaken, name.span, "entry `{}` has the name of an input",
                   input.text)
            .label(input.span, "the input");
  }

  Reader& reader_;
  const std::vector<Name>& inputs_;
  Networks& networks_;
  const Locals& locals_;
  std::map<std::string, size_t> copies_;  // for each entry; 0 without `repeat`
};

}  // namespace

std::vector<std::optional<std::string>> entries_above(const yaml::Node& graph,
                                                      const std::optional<std::string>& first,
                                                      const Sources& sources) {
  std::map<int32_t, std::map<uint32_t, size_t>> files;  // the entries of each file, by position
  for (size_t i = 0; i < graph.entries.size(); ++i) {
    const yaml::Entry& entry = graph.entries[i];
    const Span key = entry.place.value_or(entry.key_span), value = entry.value.span;
    if (!key.valid()) continue;
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
