// Readers of the sections of a job file: each takes a node of the tree and returns its value. All
// report every error and return what they could read.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/job/read/job.h"
#include "compiler/job/read/networks.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/vars.h"

namespace flow::job {

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
/// Reports unknown operands and cycles, poisons what has them, and sorts.
void order_entries(Reader& reader, Graph& graph, const std::vector<Name>& inputs);
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
/// `follows`: becomes the place of what a plateau watches.
plan::Schedule read_learning_rate(Reader& reader, const yaml::Node& node, Span key,
                                  FollowedPlace& follows);
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
plan::Sink read_command(const Fields& fields);
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
                   const Section& section = every_section());
/// What a train job does that says nothing of checkpoints.
plan::Checkpointing default_checkpoints();
/// Of a job whose type and shards are known; nothing after an error.
std::optional<Loop> read_loop(Reader& reader, const yaml::Node& node, Span key, const Job& job);
/// Into `job`, whose type and inputs are known.
void read_run(Reader& reader, const yaml::Node& node, Span key, Job& job);

/// "0..50000", the second number left out; "1400.." ends at Hook::kForever.
std::optional<std::pair<int64_t, int64_t>> parse_range(std::string_view text);

}  // namespace flow::job
