// The order in which a graph's entries run: each after those it reads, else as in the file.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/job/read/sections.h"
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

  /// Which entries each entry reads. Unknown names are errors.
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

  /// The entry whose variables another one uses comes before it.
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
        .error(Diagnosis::kUnknownTensor, owner.span,
               fmt::format("{}: unknown entry `{}` in `variables`", entry.name.text, first))
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
                    fmt::format("{}: unknown tensor `{}`; `{}` is an input", entry.name.text,
                                operand.text, first));
      return;
    }
    const bool starts_as_number = operand.text.find_first_of("0123456789") <= 1;
    if (const std::string hint = number_hint(operand.text); starts_as_number && !hint.empty()) {
      reader_
          .error(Diagnosis::kUnknownTensor, operand.span,
                 fmt::format("{}: `{}` is neither a number nor a tensor", entry.name.text,
                             operand.text))
          .with_hint(hint);
      return;
    }
    std::vector<std::string> others = names_;
    std::erase(others, entry.name.text);
    const bool indexed =
        std::ranges::find(others, first.substr(0, first.find('['))) != others.end();
    reader_
        .error(Diagnosis::kUnknownTensor, operand.span,
               fmt::format("{}: unknown input or entry `{}`", entry.name.text, first))
        .with_hint(indexed ? "use a dot for secondary outputs, as in `parts.out1`, and "
                             "`op: slice` for a part of a tensor"
                           : suggestion(first, others, "available names:"));
  }

  /// Depth first, with an explicit stack: graphs can be long chains.
  void visit(size_t root) {
    if (state_[root] != State::kNew) return;
    std::vector<std::pair<size_t, size_t>> stack{{root, 0}};  // entry, next of its reads
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
    reader_.error(Diagnosis::kCycle, read.span,
                  fmt::format("cyclic dependency: {}", join(cycle, " <- ")));
  }

  Reader& reader_;
  Graph& graph_;
  std::vector<State> state_;
  std::vector<std::string> names_;  // inputs, then entries that are not inputs as well
  size_t inputs_ = 0;
  std::map<std::string, size_t> index_;
  std::vector<std::vector<Read>> reads_;
  std::vector<size_t> order_;
};

}  // namespace

void order_entries(Reader& reader, Graph& graph, const std::vector<Name>& inputs) {
  Sorter(reader, graph, inputs).run();
}

}  // namespace flow::job
