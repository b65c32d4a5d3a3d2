// Declares the readers of the sections of a job file. Each takes a node of the tree and returns its
// value. All of them report every error and return the parts that they could read. Also declares
// operations on a whole file that come before.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/job/read/job.h"
#include "compiler/job/read/merged_columns.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/reader.h"
#include "compiler/job/text/vars.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {

/// The parts of a network that its callers use.
struct Signature {
  struct Param {
    Name name;
    std::optional<yaml::Node> fallback;  // empty for `required`
  };
  Name name;
  std::vector<Name> inputs;
  std::vector<Param> params;
};

using Arguments = std::vector<std::pair<std::string, yaml::Node>>;

/// The networks of a file. Each network is read once for each set of arguments that it is called
/// with. Its params are substituted like variables.
class Networks {
 public:
  Networks(Reader& reader, Variables& variables) : reader_(reader), variables_(variables) {}

  /// Reads the signatures in `networks:` and reports their errors. Then reads the networks without
  /// params.
  void declare(const yaml::Node& section);
  /// Returns the network with that name, or null.
  const Signature* find(std::string_view name) const;
  std::vector<std::string> names() const;
  /// Returns the index in made() of the network with these arguments. `call` is the position of the
  /// call in an entry of a job or of a network that is being read. Returns nothing after an error,
  /// for example if a network calls itself. REQUIRES: each argument belongs to a param of the
  /// network, and no required param is missing.
  std::optional<size_t> call(const Name& call, const Arguments& arguments);
  /// Reads networks that are not called. Skips checks that depend on a required param.
  void read_uncalled();
  /// Returns the networks that no entry calls.
  std::vector<Name> uncalled() const;

  std::vector<Network>& made() { return made_; }
  Variables& variables() { return variables_; }

 private:
  struct Declaration {
    Signature signature;
    const yaml::Node* node = nullptr;  // the network's mapping
    bool called = false;
    bool open = false;                    // is being read
    std::map<std::string, size_t> known;  // indices in made_, by arguments
  };

  void declare_one(const yaml::Entry& entry);
  void read_params(const yaml::Node& node, Signature& signature);
  void check_taken(const Name& name, std::string_view what);
  std::optional<size_t> read(Declaration& declaration, const Arguments& arguments, Span call);
  Network read_body(const Declaration& declaration, const Locals& locals);
  bool may_read(const Declaration& declaration, Span call);
  void report_recursion(const Declaration& declaration, Span call);

  Reader& reader_;
  Variables& variables_;
  std::deque<Declaration> declarations_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::vector<Network> made_;
  std::vector<std::string> path_;  // networks that are being read
};

/// Reads the whole file, after overrides were applied. Substitutes the variables of each section
/// right before it reads the section.
File read_file(Reader& reader, yaml::Node& node);
/// Reports mappings that are written as lists, and turns them into mappings.
void remove_dashes(Reader& reader, yaml::Node& file);
/// Warns about datasets that no job reads and networks that no entry calls.
void warn_of_unused(Reader& reader, const File& file);

std::vector<Dataset> read_data(Reader& reader, const yaml::Node& node);
/// Reads a column whose keys are merged.
Column read_column(Reader& reader, const MergedColumn& merged);
/// Returns what the keys of a column determine about the shape of its rows. `shape` is the value of
/// `shape:`, if there is one.
RowForm row_form(const plan::Column& column, const std::optional<Shape>& shape);
/// Reports values that the keys of a column or its types exclude together.
void check_column(const Fields& fields, plan::Column& column);
/// Reads `options` of a dataset and checks them with its columns.
void read_options(Reader& reader, const yaml::Entry& dataset, Dataset& made);
/// Returns the column that a text such as "houses.area" or "houses/validation.area" names, with its
/// part. Reports an unknown one and returns nothing.
struct FoundColumn {
  const Dataset* dataset = nullptr;
  const Column* column = nullptr;
  std::string part;
};
std::optional<FoundColumn> find_column(Reader& reader, const yaml::Node& node,
                                       const std::vector<Dataset>& datasets);
/// Checks the list of a column at `key` ("mean"), whose position is `span`. Returns null if it has
/// as many values as `row` has leading channels, and otherwise the reported error.
Diag* check_channels(Reader& reader, std::string_view key, Span span, size_t values,
                     const Shape& row);
Job read_job(Reader& reader, const yaml::Entry& entry, const std::vector<Dataset>& datasets,
             Networks& networks);

std::vector<Input> read_inputs(Reader& reader, const yaml::Node& node,
                               const std::vector<Dataset>& datasets);
/// Reads the entries of a graph with these inputs, sorted so that each comes after those that it
/// reads. If `in_job` is true, the first entry requires `in:`. `node` is null for an empty graph.
/// Substitutes `locals` and variables.
Graph read_graph(Reader& reader, const yaml::Node* node, const std::vector<Name>& inputs,
                 Networks& networks, const Locals& locals, bool in_job);
/// Returns, for each entry, the entry above it in its file; for the first one of a file, returns
/// `first`. If an including file changes an entry, the entry keeps its place, and also has a place
/// in the including file for the entries below it there. Returns nothing for entries of the command
/// line, and for entries that a job adds to the job that it extends.
std::vector<std::optional<std::string>> entries_above(const yaml::Node& graph,
                                                      const std::optional<std::string>& first,
                                                      const Sources& sources);
/// Reads one entry, or one copy of it. `fallback` is the default of `in:`, or nothing.
Entry read_entry(Reader& reader, const yaml::Entry& entry, Networks& networks,
                 const std::optional<std::string>& fallback);
/// Reads the value of one attribute into `entry`.
void read_attribute(Reader& reader, const yaml::Node& node, const ops::AttributeSpec& def,
                    Entry& entry);
/// Returns the words that `padding:` accepts in addition to numbers.
const std::vector<std::string>& padding_words();
/// Reads `zeros`, a number, or a mapping with a type.
std::optional<WrittenInitializer> read_initializer(Reader& reader, const yaml::Node& node,
                                                   std::string_view what);

/// Reads the optimizer. `precision` is that of the job.
std::optional<Optimizer> read_optimizer(Reader& reader, const yaml::Node& node, Span key,
                                        std::string_view precision);
std::optional<Returns> read_returns(Reader& reader, const yaml::Node& node, Span key);
/// Infers the type of a `value:` that declares none. Returns nothing after an error.
std::optional<std::string> inferred_type(Reader& reader, const yaml::Node& value);
/// Reads hooks. `train` is true if gradients exist.
std::vector<Hook> read_hooks(Reader& reader, const yaml::Node& node, bool train);
/// Reads metrics into the graph and the hooks of `job`. REQUIRES: the type, inputs and graph of
/// `job` are complete.
void read_metrics(Reader& reader, const yaml::Node& node, Job& job);
/// Reads a hook from the command line, as NAME or NAME:EVERY.
std::optional<Hook> read_hook_option(Reader& reader, std::string_view option,
                                     const std::string& text, Hook::Kind kind);
/// Reads `to:`, which is one sink or a list of sinks. The default, for null, is npy.
std::vector<plan::Sink> read_sinks(Reader& reader, const yaml::Node* to);
/// Reports an invalid `format`.
void check_print_format(const Fields& fields, const std::string& format);
/// Checks that the command sinks in `to:` expect the kind of value that they receive, a Numpy or a
/// ListNumpy.
void check_expected(Reader& reader, const yaml::Node& to, plan::ReturnValue::Kind given);
/// Reads a placement. `section` is that of the job, or that of entries.
Placement read_placement(Reader& reader, const yaml::Node& node, Span key, const Section& section);
/// Reads `shards`. Returns 1 after an error. REQUIRES: the placement and the inputs of `job` are
/// complete.
int64_t read_shards(const Fields& fields, const Job& job);
/// The value of `every: {steps: N}` or `{epochs: N}`. The other member is 0. `has_dataset` is true
/// if the length of an epoch is defined.
struct Period {
  int64_t steps = 0, epochs = 0;
  // Set if `section` supports minutes and the file gives neither steps nor epochs.
  std::optional<double> minutes = {};
};
Period read_period(const Fields& owner, const yaml::Node& node, bool has_dataset,
                   const Section& section = kEverySection);
/// Returns the checkpoints of a train job that does not configure any.
plan::Checkpointing default_checkpoints();
/// Reads the run section into `job`. REQUIRES: the type and the inputs of `job` are complete.
void read_run(Reader& reader, const yaml::Node& node, Span key,
              const std::vector<Dataset>& datasets, Job& job);
/// Reads `shuffle`, `sample`, `epoch_rows` and `data_threads` of a run section.
void read_epoch_order(const Fields& fields, const std::vector<Dataset>& datasets, Job& job);

/// Parses a range such as "0..50000", whose second number is exclusive. A range such as "1400.."
/// ends at Hook::kForever.
std::optional<std::pair<int64_t, int64_t>> parse_range(std::string_view text);

/// Returns the device of a placement for a target. `auto` means the device of the target.
plan::DeviceKind device_of(const Placement& placement, const Target& target);

/// Chooses the devices that the job runs on. Reports devices that the target does not have.
void place(Reader& reader, const Job& job, const Target& target, plan::Job& made);

/// Reports an entry's placement if it names other devices than that of its job.
void check_entry_placement(Reader& reader, const Entry& entry, const Job& job,
                           const Target& target);

/// Reads `key` (`watch` or `by`), `mode` and `every`. Returns nothing if `key` is absent or is not
/// text. Sets `place` to the position of the value.
std::optional<plan::FollowedValue> read_followed(const Fields& fields, std::string_view key,
                                                 FollowedPlace& place);
std::optional<plan::EarlyStopping> read_early_stopping(const Fields& fields, FollowedPlace& place);

/// Determines, for each value that `job` follows, the job that computes it and whether larger
/// values are better. Reports values that cannot be followed.
void resolve_followed(Reader& reader, const File& file, Job& job);
/// Adds hooks for the values that `job` follows, to `job` and to the jobs that it calls.
void add_followed_hooks(File& file, Job& job);

/// Reads `also:` of a run section into `job`. `has_dataset` is true if the length of an epoch is
/// defined.
void read_sub_jobs(Reader& reader, const yaml::Node& node, bool has_dataset, Job& job);

/// Reports unknown jobs, jobs that call themselves, and duplicates.
void check_sub_job_names(Reader& reader, const File& file);

/// Reports jobs that cannot share their variables with the job that calls them. `made` contains the
/// plans of the jobs that were compiled.
void check_sub_job_plans(Reader& reader, const File& file, const std::vector<plan::Job>& made);

/// Returns true if `job` calls the job with that name.
bool calls(const Job& job, std::string_view name);

// The following functions operate on a whole file without calling its networks: they substitute
// variables, look up calls, and write or drop defaults.

/// Substitutes variables outside of graphs. Graphs are excluded because they have additional names.
void put_in(Variables& variables, yaml::Node& file);

/// Substitutes variables in graphs too. Text that needs a param or `$index` stays unchanged,
/// together with the `vars:` that it uses; all other variables are removed. If an entry reads the
/// entry above it, and that is a different one in `file` now, adds `in:`. Reports the same errors
/// as reading the file.
void resolve(Reader& reader, yaml::Node& file);

/// A built-in op, or a network of the file. Both are null if variables hide the name.
struct Callee {
  const ops::OpSpec* op = nullptr;
  const yaml::Node* network = nullptr;
};

Callee callee_of(const yaml::Node& file, const yaml::Node& entry);

/// Returns true if an attribute affects only the initial value or the training of variables, and
/// not the result of the entry. An entry with shared variables cannot have such an attribute.
inline bool is_of_variables(const ops::AttributeSpec& def) {
  return def.type == ops::AttributeType::kInitializer ||
         def.type == ops::AttributeType::kRegularizer;
}

/// Returns the input that the first entry of a network reads, if it is unambiguous.
std::optional<std::string> only_input(const yaml::Node& network);
/// Returns true if the entry would read the entry above it if it had no `in:`.
bool reads_above_by_default(const yaml::Node& file, const yaml::Node& entry);
/// Returns true if the entry has no `in:` and reads the entry above it.
bool reads_above(const yaml::Node& file, const yaml::Node& entry);
/// Adds `in:` after `op:`.
void say_what_is_read(yaml::Node& entry, const std::string& name);

/// Adds every key whose default can be written. Omits defaults that depend on shapes, on names or
/// on the number of rows. REQUIRES: the file has no errors.
void write_defaults(Reader& reader, yaml::Node& file);

/// Removes every key that equals its default, and shortens values that have a shorter form.
void drop_defaults(Reader& reader, yaml::Node& file);

/// Returns true if a file cannot write the default: "-inf", or a computed value such as
/// "1/sqrt(D)".
bool is_unwritable(const ops::AttributeSpec& def);

}  // namespace flow::job
