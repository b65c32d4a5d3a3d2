// Declares the steps from a job's entries to its plan. They build the graph (networks inlined,
// layers expanded, names resolved), resolve the names in hooks, returns, optimizer and loop to
// values of the graph, and write the parts of the plan that drive the calls: inputs, returns,
// hooks, schedule, run.
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

/// Records, over all jobs, which entries of the file were made and which of their results were
/// read.
class Usage {
 public:
  void made(const Name& entry) { made_.try_emplace({entry.span.source, entry.span.begin}, entry); }
  void read(const Name& entry) { read_.insert({entry.span.source, entry.span.begin}); }
  /// Warns about each entry that was made and never read.
  void warn(Reader& reader) const;

 private:
  std::map<std::pair<int32_t, uint32_t>, Name> made_;
  std::set<std::pair<int32_t, uint32_t>> read_;
};

/// The value that a name refers to. It is invalid if the name is unknown; `has_error` is set if an
/// earlier error is the reason.
struct Resolved {
  ir::ValueId value;
  bool has_error = false;
};

/// The graph of a job, with names as the author of the job file sees them.
class Instance {
 public:
  Instance(Reader& reader, const File& file, const Job& job, const Target& target, Usage& usage);

  /// Returns the tensor, variable, input or entry called `name` within the job.
  Resolved find(std::string_view name) const;
  /// Returns the same, but reports an unknown name at `name.span` and marks the entry as read.
  /// `what` begins the message, such as "`minimize`".
  Resolved require(const Name& name, std::string_view what);
  /// Returns all names once each, in the order in which they were made: inputs, variables, entries,
  /// primitives.
  std::vector<std::string> names() const;
  /// Returns all entries and copies, ordered by name.
  std::vector<WrittenEntry> entries() const;
  /// Adds nodes to the graph that no entry describes.
  ir::Builder& builder() { return builder_; }
  /// Marks the entry `name` as read, and also the entries around it whose names begin with
  /// `prefix`.
  void mark_read(std::string_view name, std::string_view prefix = {});

  ir::Graph graph;  // each node has a device
  /// Returns true if a part of the graph is missing after an error.
  bool has_error() const { return !failed_.empty(); }

 private:
  /// The names that the entries of one graph can use, and the defaults of these entries.
  struct Scope {
    std::string prefix;                         // "" or a prefix such as "lenet/"
    std::map<std::string, ir::ValueId> values;  // inputs and entries; invalid after an error
    bool trainable = true, training = true;
    // The prefix for names of variables. Differs from `prefix` if they are shared with another
    // entry.
    std::string variables;
    Span shared_at;  // the position of `variables:`
    // The inputs of a network that are given as numbers.
    std::map<std::string, Operand> numbers;
    // The device of entries without a placement.
    plan::DeviceKind device = plan::DeviceKind::kCpu;
    // Whether ops that would need the rows of several shards use only those of each shard.
    bool per_shard = false;
    // The dtype for entries that do not set one.
    std::optional<VariableDType> variable_dtype = {};
  };
  /// The call of one entry, or of one copy of it.
  struct Call {
    const Entry& entry;
    std::string name;  // the full name
    // The entry whose variables it uses: its own name or that of another entry.
    std::string variables;
    Span shared_at;          // the position of `variables:`
    ir::ValueId first = {};  // if valid, replaces the first operand
    plan::DeviceKind device = plan::DeviceKind::kCpu;
  };
  /// The argument for an operand: a value, or a number that does not have a dtype yet.
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
  // For each entry, by full name, the entry whose variables it uses.
  std::map<std::string, std::string> owners_;
};

/// A tensor that a hook watches.
struct Watched {
  const Hook* hook = nullptr;
  plan::Hook::Kind kind = plan::Hook::Kind::kWatch;
  std::string name;  // the name under which it is delivered
  // The op that makes it before any pass runs, or "variable" or "input".
  std::string op;
  ir::ValueId value;
};

struct Bindings {
  std::vector<ir::ValueId> returned;  // the leaves of `returns.value`, in order
  std::vector<Watched> watched;
  passes::Context context;
  bool complete = true;  // false after an error, so that the passes cannot run
};

/// Resolves all names, reports unknown ones, and marks in the graph which results are read.
Bindings bind(Reader& reader, Instance& instance, const Job& job);

/// Warns about cross entropies whose labels depend on these trained variables while their logits do
/// not. Called before the passes.
void warn_of_swapped_labels(Reader& reader, const ir::Graph& graph,
                            const std::vector<ir::ValueId>& variables);

/// Drops or reports watched gradients that do not exist. Called after the passes. REQUIRES:
/// bindings.complete.
void check_gradients(Reader& reader, const ir::Graph& graph, const Job& job, Bindings& bindings);

/// Checks variables that the jobs of a file share by name: their shapes must agree.
class SharedVariables {
 public:
  /// Reports each variable of `graph` that has another shape in an earlier job.
  void check(Reader& reader, const Job& job, const ir::Graph& graph);

 private:
  struct First {
    std::string job;
    Shape shape;
    Span span;
  };
  std::map<std::string, First> first_;
};

/// Returns the parts of the job's optimizer that the passes need, except for watched gradients.
/// Returns nothing after an error. REQUIRES: job.optimizer is set and minimizes at least one loss.
std::optional<passes::Training> bind_optimizer(Reader& reader, Instance& instance, const Job& job);

/// Resolves the values that are fed back, and stacks the returned results of passes. Returns false
/// after an error. REQUIRES: the job has a loop, and `bound` is complete.
bool bind_loop(Reader& reader, Instance& instance, const Job& job, Bindings& bound);

/// Sets all members of `made` except tensors, variables and steps, which `lowered` describes.
void write_io_spec(Reader& reader, const File& file, const Job& job, const ir::Graph& graph,
                   const Bindings& bindings, const Lowered& lowered, plan::Job& made);

/// Returns all datasets with all columns. The rows of a column without `shape:` have the shape of
/// the first input that reads it.
std::vector<plan::Dataset> all_datasets(const File& file);

/// Checks dataset columns without `shape:`. Such a column has the rows of the input that reads it;
/// two inputs that disagree are an error.
void check_implied_rows(Reader& reader, const File& file, const Job& job);

}  // namespace flow::job
