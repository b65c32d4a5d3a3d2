// Readers of the sections of a job file: each takes a node of the tree and returns its value. All
// report every error and return what they could read. What is done to a whole file before.
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
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/reader.h"
#include "compiler/job/text/vars.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {

/// What callers know of a network.
struct Signature {
  struct Param {
    Name name;
    std::optional<yaml::Node> fallback;  // nothing: `required`
  };
  Name name;
  std::vector<Name> inputs;
  std::vector<Param> params;
};

using Arguments = std::vector<std::pair<std::string, yaml::Node>>;

/// The networks of a file. Each is read once for every set of arguments that it is called with, its
/// params put in like variables.
class Networks {
 public:
  Networks(Reader& reader, Variables& variables) : reader_(reader), variables_(variables) {}

  /// `networks:`. Reports what is wrong with the signatures, and reads those without params.
  void declare(const yaml::Node& section);
  /// The network of that name, or null.
  const Signature* find(std::string_view name) const;
  std::vector<std::string> names() const;
  /// The index in made() of a network as `arguments` make it. `call` is where it is called, by an
  /// entry of a network that is being read or of a job. Nothing after an error, such as a network
  /// that calls itself. REQUIRES: each is one of its params, and none is missing.
  std::optional<size_t> call(const Name& call, const Arguments& arguments);
  /// Reads networks without a call. Skips checks that depend on a required param.
  void read_uncalled();
  /// Those that no entry calls.
  std::vector<Name> uncalled() const;

  std::vector<Network>& made() { return made_; }
  Variables& variables() { return variables_; }

 private:
  struct Declaration {
    Signature signature;
    const yaml::Node* node = nullptr;  // the network's mapping
    bool called = false;
    bool open = false;                    // being read
    std::map<std::string, size_t> known;  // by arguments: indices in made_
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
  std::vector<std::string> path_;  // of networks that are being read
};

/// The whole file, after overrides. Puts in the variables of each section as it comes to it.
File read_file(Reader& reader, yaml::Node& node);
/// Reports mappings that are written as lists, and turns them into mappings.
void remove_dashes(Reader& reader, yaml::Node& file);
/// Warns of datasets that no job reads and networks that no entry calls.
void warn_of_unused(Reader& reader, const File& file);

std::vector<Dataset> read_data(Reader& reader, const yaml::Node& node);
/// An error at `span`, the list of a column at `key` ("mean"), unless it has as many values as
/// `row` has leading channels; else null.
Diag* check_channels(Reader& reader, std::string_view key, Span span, size_t values,
                     const Shape& row);
Job read_job(Reader& reader, const yaml::Entry& entry, const std::vector<Dataset>& datasets,
             Networks& networks);

std::vector<Input> read_inputs(Reader& reader, const yaml::Node& node,
                               const std::vector<Dataset>& datasets);
/// The entries of a graph that reads `inputs`, sorted so that each comes after those it reads.
/// `in_job`: the first entry requires `in:`. `node`: null for an empty graph. Substitutes `locals`
/// and variables.
Graph read_graph(Reader& reader, const yaml::Node* node, const std::vector<Name>& inputs,
                 Networks& networks, const Locals& locals, bool in_job);
/// The entry above each in its file; above the first there, `first`. An entry that an including
/// file changes keeps its place, and has a place in that file too for those below. Nothing for
/// entries of the command line, and for entries that a job adds to an extended job.
std::vector<std::optional<std::string>> entries_above(const yaml::Node& graph,
                                                      const std::optional<std::string>& first,
                                                      const Sources& sources);
/// One entry, or one copy of it. `fallback`: what `in:` is where it is left out, or nothing.
Entry read_entry(Reader& reader, const yaml::Entry& entry, Networks& networks,
                 const std::optional<std::string>& fallback);
/// The written value of one attribute goes into `entry`.
void read_attribute(Reader& reader, const yaml::Node& node, const ops::AttributeSpec& def,
                    Entry& entry);
/// The words of `padding:`; it takes numbers too.
const std::vector<std::string>& padding_words();
/// `zeros`, a number, or a mapping with a type.
std::optional<WrittenInitializer> read_initializer(Reader& reader, const yaml::Node& node,
                                                   std::string_view what);

/// `precision`: of the job.
std::optional<Optimizer> read_optimizer(Reader& reader, const yaml::Node& node, Span key,
                                        std::string_view precision);
std::optional<Returns> read_returns(Reader& reader, const yaml::Node& node, Span key);
/// The type of a `value:` that declares none; nothing after an error.
std::optional<std::string> inferred_type(Reader& reader, const yaml::Node& value);
/// `train`: gradients exist.
std::vector<Hook> read_hooks(Reader& reader, const yaml::Node& node, bool train);
/// Into the graph and hooks of `job`, whose type, inputs and graph are known.
void read_metrics(Reader& reader, const yaml::Node& node, Job& job);
/// A hook from the command line, NAME or NAME:EVERY.
std::optional<Hook> read_hook_option(Reader& reader, std::string_view option,
                                     const std::string& text, Hook::Kind kind);
/// `to:`, one sink or a list of them; npy where it is absent (null).
std::vector<plan::Sink> read_sinks(Reader& reader, const yaml::Node* to);
/// Reports an invalid `format`.
void check_print_format(const Fields& fields, const std::string& format);
/// What the command sinks in `to:` expect is compared with what they are given, a Numpy or a
/// ListNumpy.
void check_expected(Reader& reader, const yaml::Node& to, plan::ReturnValue::Kind given);
/// `section`: the job's, or that of entries.
Placement read_placement(Reader& reader, const yaml::Node& node, Span key, const Section& section);
/// `shards`: of a job whose placement and inputs are known; 1 after an error.
int64_t read_shards(const Fields& fields, const Job& job);
/// `every: {steps: N}` or `{epochs: N}`; the other is 0. `has_dataset`: an epoch is known.
struct Period {
  int64_t steps = 0, epochs = 0;
  std::optional<double> minutes = {};  // where `section` has them, which they are unless given
};
Period read_period(const Fields& owner, const yaml::Node& node, bool has_dataset,
                   const Section& section = kEverySection);
/// What a train job does that says nothing of checkpoints.
plan::Checkpointing default_checkpoints();
/// Into `job`, whose type and inputs are known.
void read_run(Reader& reader, const yaml::Node& node, Span key, Job& job);

/// "0..50000", the second number left out; "1400.." ends at Hook::kForever.
std::optional<std::pair<int64_t, int64_t>> parse_range(std::string_view text);

/// The device that a placement means for a target: `auto` is what that has.
plan::DeviceKind device_of(const Placement& placement, const Target& target);

/// Chooses the devices that the job runs on. Reports devices that the target does not have.
void place(Reader& reader, const Job& job, const Target& target, plan::Job& made);

/// Reports an entry's placement that names other devices than those of its job.
void check_entry_placement(Reader& reader, const Entry& entry, const Job& job,
                           const Target& target);

/// Reads `key` (`watch` or `by`), `mode` and `every`. Nothing without `key`, or with a value that
/// is not text. `place`: becomes that of the value.
std::optional<plan::FollowedValue> read_followed(const Fields& fields, std::string_view key,
                                                 FollowedPlace& place);
std::optional<plan::EarlyStopping> read_early_stopping(const Fields& fields, FollowedPlace& place);

/// Finds the job of each value of `job` and which values are better, and reports those that cannot
/// be followed.
void resolve_followed(Reader& reader, const File& file, Job& job);
/// Adds hooks that make the values of `job` to it and to the jobs that it calls.
void add_followed_hooks(File& file, Job& job);

/// Reads `also:` of a run section into `job`. `has_dataset`: an epoch is known.
void read_sub_jobs(Reader& reader, const yaml::Node& node, bool has_dataset, Job& job);

/// Reports unknown jobs, the job itself, and duplicates.
void check_sub_job_names(Reader& reader, const File& file);

/// Reports jobs that cannot share their variables with the job that calls them. `made`: the plans
/// of the jobs that were compiled.
void check_sub_job_plans(Reader& reader, const File& file, const std::vector<plan::Job>& made);

/// Does `job` call the job of that name?
bool calls(const Job& job, std::string_view name);

// What is done to a whole file: variables put in, as far as that can be without calling its
// networks; calls looked up; defaults written out, or left out.

/// Substitutes variables outside graphs, which have more names.
void put_in(Variables& variables, yaml::Node& file);

/// Puts them into graphs too. What needs a param or `$index` stays as it is written, and so do the
/// `vars:` that it uses; the others go. An entry that reads the one above it says so where that is
/// another one in `file` now. Errors are those that reading the file reports.
void resolve(Reader& reader, yaml::Node& file);

/// A built-in op, or a network of the file; neither where variables hide which.
struct Callee {
  const ops::OpSpec* op = nullptr;
  const yaml::Node* network = nullptr;
};

Callee callee_of(const yaml::Node& file, const yaml::Node& entry);

/// Whether an attribute sets the initial value or training of variables, not what the entry
/// computes. An entry with shared variables cannot have it.
inline bool is_of_variables(const ops::AttributeSpec& def) {
  return def.type == ops::AttributeType::kInitializer ||
         def.type == ops::AttributeType::kRegularizer;
}

/// What the first entry of a network reads, where that is clear.
std::optional<std::string> only_input(const yaml::Node& network);
/// Does the entry read the one above it by default, without `in:`?
bool reads_above_by_default(const yaml::Node& file, const yaml::Node& entry);
/// The same, for an entry without `in:`.
bool reads_above(const yaml::Node& file, const yaml::Node& entry);
/// Adds `in:` after `op:`.
void say_what_is_read(yaml::Node& entry, const std::string& name);

/// Adds every key whose default can be written. What depends on shapes, on names or on the number
/// of rows stays out. REQUIRES: the file has no errors.
void write_defaults(Reader& reader, yaml::Node& file);

/// Removes every key that equals its default, and shortens values that have a shorter form.
void drop_defaults(Reader& reader, yaml::Node& file);

/// Is the default one that a file cannot write? "-inf", or worked out: "1/sqrt(D)".
bool is_unwritable(const ops::AttributeSpec& def);

}  // namespace flow::job
