// A job's graph made from its entries: networks inlined, layers expanded, names resolved. Names in
// its hooks, returns, optimizer and loop, resolved to values of the graph; and what drives the
// calls of the job, written into its plan: inputs, returns, hooks, schedule, run.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "compiler/job/read/job.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/pipeline.h"
#include "compiler/source/source.h"

namespace flow::job {

/// Which entries of the file were made, and whose results were read, over all jobs.
class Usage {
 public:
  void made(const Name& entry) { made_.try_emplace({entry.span.source, entry.span.begin}, entry); }
  void read(const Name& entry) { read_.insert({entry.span.source, entry.span.begin}); }
  /// Warns of each entry that was made and never read.
  void warn(Reader& reader) const;

 private:
  std::map<std::pair<int32_t, uint32_t>, Name> made_;
  std::set<std::pair<int32_t, uint32_t>> read_;
};

/// What a name refers to: a value, something unknown after an earlier error, or nothing.
struct Resolved {
  ir::ValueId value;
  bool has_error = false;
};

/// A job's graph as its author sees it.
class Instance {
 public:
  Instance(Reader& reader, const File& file, const Job& job, const Target& target, Usage& usage);

  /// The tensor, variable, input or entry called `name` from within the job.
  Resolved find(std::string_view name) const;
  /// The same; reports an unknown name at `name.span` and marks the entry as read. `what` begins
  /// the message: "`minimize`".
  Resolved require(const Name& name, std::string_view what);
  /// All names in order of making, each once: inputs, variables, entries, primitives.
  std::vector<std::string> names() const;
  /// All entries and copies, by name.
  std::vector<WrittenEntry> entries() const;
  /// Adds to the graph what no entry says.
  ir::Builder& builder() { return builder_; }
  /// Marks the entry `name` and the entries around it as read, outward to those whose names begin
  /// with `prefix`.
  void mark_read(std::string_view name, std::string_view prefix = {});

  ir::Graph graph;  // each node placed
  /// A part of the graph is missing after an error.
  bool has_error() const { return !failed_.empty(); }

 private:
  /// The names that entries of one graph may use.
  struct Scope {
    std::string prefix;                         // "" or "lenet/"
    std::map<std::string, ir::ValueId> values;  // inputs and entries; invalid after an error
    bool trainable = true, training = true;
    std::string variables;  // like prefix, for the names of variables: another entry's, if shared
    Span shared_at;         // of the `variables:` that says so
    std::map<std::string, Operand> numbers;  // inputs of a network that are given as numbers
    plan::DeviceKind device = plan::DeviceKind::kCpu;  // of entries without their own placement
    bool per_shard = false;  // what needs rows of several shards is computed from those of each
    std::optional<VariableDType> variable_dtype = {};  // of entries that say nothing
  };
  /// Where one entry, or one copy of it, is called.
  struct Call {
    const Entry& entry;
    std::string name;        // full
    std::string variables;   // the entry whose variables it uses; its own name, or another's
    Span shared_at;          // of the `variables:` that says so
    ir::ValueId first = {};  // valid: replaces the first operand
    plan::DeviceKind device = plan::DeviceKind::kCpu;
  };
  /// What an operand gives: a value, or a number that has no dtype yet.
  struct Argument {
    ir::ValueId value;
    const Operand* number = nullptr;
  };

  void add_inputs();
  ir::ValueId fed_back(const std::string& name, ir::ValueId value);
  void run(const std::vector<Entry>& entries, Scope& scope);
  bool may_make(const Name& entry);
  ir::ValueId call_entry(const Entry& entry, const std::string& name, Scope& scope);
  ir::ValueId call_once(const Entry& entry, const std::string& name, std::string own,
                        const Scope& scope, ir::ValueId first = {});
  ir::ValueId call(const Call& call, const Scope& scope);
  ir::ValueId call_network(const Call& call, const std::vector<Argument>& arguments,
                           const Scope& scope);
  ir::ValueId call_op(const Call& call, std::vector<Argument> arguments, const Scope& scope);
  plan::DeviceKind device_of(const Entry& entry, const Scope& scope);
  static std::optional<VariableDType> variable_dtype_of(const Entry& entry, const Scope& scope);
  std::optional<std::string> owner_of(const Entry& entry, const std::string& suffix,
                                      const Scope& scope);
  std::optional<std::vector<Argument>> arguments_of(const Call& call, const Scope& scope);
  Resolved resolve(std::string_view text, const Scope& scope) const;
  ir::ValueId first_result(const std::string& name) const;
  ir::ValueId shared_variable(const std::string& name) const;
  DType dtype_beside(const Call& call, size_t i, const std::vector<Argument>& arguments) const;
  bool check_number(const Call& call, const Operand& operand, DType dtype);
  ir::ValueId add_number(const Call& call, size_t i, const std::vector<Argument>& arguments);
  ir::Attributes attributes_of(const Entry& entry) const;
  void report_unknown(const Name& name, std::string_view what, const Scope& scope);

  Reader& reader_;
  const File& file_;
  const Job& job_;
  const Target& target_;
  Usage& usage_;
  ir::Builder builder_;
  Scope scope_;
  std::set<std::string> failed_;                              // full names of entries
  std::map<std::string, const Entry*, std::less<>> entries_;  // by full name
  std::map<std::string, std::string> owners_;  // entries, by full name: whose variables they use
};

/// One tensor that one hook watches.
struct Watched {
  const Hook* hook = nullptr;
  plan::Hook::Kind kind = plan::Hook::Kind::kWatch;
  std::string name;  // as delivered
  std::string op;    // that makes it, before passes; or "variable", "input"
  ir::ValueId value;
};

struct Bindings {
  std::vector<ir::ValueId> returned;  // the leaves of `returns.value`, first to last
  std::vector<Watched> watched;
  passes::Context context;
  bool complete = true;  // false after an error: the passes cannot run
};

/// Resolves all names, reports unknown ones, and marks in the graph which results are read.
Bindings bind(Reader& reader, Instance& instance, const Job& job);

/// Warns of cross entropies whose labels depend on these variables, which are trained, while their
/// logits do not. Before the passes.
void warn_of_swapped_labels(Reader& reader, const ir::Graph& graph,
                            const std::vector<ir::ValueId>& variables);

/// After the passes: drops or reports what has no gradient. REQUIRES: bindings.complete.
void check_gradients(Reader& reader, const ir::Graph& graph, const Job& job, Bindings& bindings);

/// Variables are shared by name between the jobs of a file: their shapes must agree.
class SharedVariables {
 public:
  /// Reports each variable of `graph` that an earlier job has with another shape.
  void check(Reader& reader, const Job& job, const ir::Graph& graph);

 private:
  struct First {
    std::string job;
    Shape shape;
    Span span;
  };
  std::map<std::string, First> first_;
};

/// What the passes need to know of the job's optimizer, but for watched gradients. Nothing after
/// an error. REQUIRES: job.optimizer, with something to minimize.
std::optional<passes::Training> bind_optimizer(Reader& reader, Instance& instance, const Job& job);

/// Resolves what is fed back, and stacks returned results of passes. False after an error.
/// REQUIRES: the job has a loop, and `bound` is complete.
bool bind_loop(Reader& reader, Instance& instance, const Job& job, Bindings& bound);

/// Fills everything of `made` but tensors, variables and steps, which `lowered` describes.
void write_io_spec(Reader& reader, const File& file, const Job& job, const ir::Graph& graph,
                   const Bindings& bindings, const Lowered& lowered, plan::Job& made);

/// The column of a dataset without `shape:` has the rows of the input that reads it; two inputs
/// that disagree are an error.
void check_implied_rows(Reader& reader, const File& file, const Job& job);

}  // namespace flow::job
