// A job file as values: what each section says, checked on its own, with the places of all that
// later stages may have to complain about. Names are not resolved yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/call_site.h"
#include "compiler/ir/initializers.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/reader.h"
#include "ops/core/spec.h"
#include "runtime/plan/model/name_pattern.h"
#include "runtime/plan/model/optimizers.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {

struct Column {
  plan::Column plan;  // row_shape: from `shape:`, else from the input that reads it
  bool has_shape = false;
  Span span;                 // of `shape:`, or the column's key
  Span mean_span, std_span;  // invalid where they are absent
};

struct Dataset {
  Name name;
  std::vector<Column> columns;
};

/// What an entry reads, as written: a name, a path, or a number.
struct Operand {
  std::string text;
  Span span;
  bool given = true;  // false: an optional operand that is absent
};

struct Placement {
  std::string type = "auto";  // auto gpu cpu
  Span ids_span;
  std::vector<plan::DeviceRange> ids;  // none: absent or wrong
  int64_t devices = 1;                 // that `ids` names
};

/// `variable_dtype:`, of the variables of an entry that are frozen.
struct VariableDType {
  std::optional<DType> dtype;  // nothing: the float dtype of the job
  Span span;
};

/// An entry of a graph: a call of an op or of a network.
struct Entry {
  Name name;
  Name op;
  const ops::OpSpec* def = nullptr;  // a built-in op, or
  std::optional<size_t> network;     // a network of the file: its index
  std::vector<Operand> operands;     // in the order of the op's or network's
  ir::Attributes attributes;         // as written; defaults are not filled in
  std::vector<std::pair<std::string, WrittenInitializer>> initializers;
  AttributeSpans spans;
  bool trainable = true;
  bool training = true;                         // false: as in a predict job
  bool per_shard = false;                       // computed from the rows of each shard alone
  std::optional<Name> variables;                // the entry whose variables it uses
  std::optional<VariableDType> variable_dtype;  // nothing: that of its network
  std::optional<Placement> placement;           // nothing: where its network or job is
  /// `repeat:` - the copies, each reading the one before as its first operand; the members above
  /// are those of the first, but for the operands: all that any copy reads.
  std::vector<Entry> copies;
  bool has_error = false;  // an error was reported: its result is not known
};

/// Entries in an order in which each comes after those it reads.
struct Graph {
  std::vector<Entry> entries;
};

/// A network, read with one set of arguments.
struct Network {
  Name name;
  std::vector<Name> inputs;
  Graph graph;
  Name output;  // an entry; empty after an error
};

struct Input {
  Name name;
  DType dtype = DType::kFloat32;
  Shape shape;
  bool rows = true;  // the leading axis carries rows
  plan::InputSource source;
  std::optional<std::pair<int64_t, int64_t>> range = {};
  Span shape_span, dtype_span, from_span;  // from_span: invalid where `from:` is absent
  bool has_error = false;
};

/// Where a value that a run follows is named.
struct FollowedPlace {
  Span span;
  bool has_mode = false;  // else the value decides
};

struct Optimizer {
  plan::OptimizerRule rule;
  std::optional<std::vector<Name>> includes, excludes;  // globs: what decays
  std::optional<std::vector<Name>> adamw;               // globs: matrices that muon leaves to adamw
  plan::Schedule learning_rate;
  std::vector<std::pair<Name, double>> learning_rate_scales;  // globs; the last match counts
  std::vector<Name> minimize;
  std::optional<std::vector<Name>> variables;  // globs: what is trained
  std::optional<double> clip_norm, clip_value;
  double clip_epsilon = 0;
  bool norm = false;  // of all gradients, which clipping by it computes anyway
  std::optional<LossScale> loss_scale;
  std::optional<double> ema_decay;
  std::optional<plan::Lookahead> lookahead;
  FollowedPlace follows_place;  // of what a plateau watches
  Span span;
  bool complete = true;  // false after an error
};

/// The nested value of a return, by name.
struct ReturnValue {
  plan::ReturnValue::Kind kind = plan::ReturnValue::Kind::kNumpy;
  std::string name;  // of a leaf
  std::vector<ReturnValue> items;
  std::vector<std::string> keys;
  Span span;
};

struct Returns {
  std::string type;
  bool callback = false;
  ReturnValue value;
  std::vector<plan::Sink> sinks;
  Span span;
};

/// What a hook of the file becomes, but for its tensors: a glob or a scope becomes several.
struct Hook {
  enum class Kind { kWatch, kWatchDiff, kWatchScope };
  static constexpr int64_t kForever = INT64_MAX;

  Hook() { plan.steps = {{0, kForever, 1}}; }

  Kind kind = Kind::kWatch;
  Name pattern;                // of tensors: a name or a glob; of a scope: what names begin with
  std::optional<Name> output;  // `as:`
  plan::Hook plan;
  bool mean = false;      // `of: mean`
  bool diffs = false;     // of a scope: gradients too
  bool followed = false;  // made for a value that a run follows
  bool metric = false;    // made for a metric, which each step needs
  Span span, when_span;
};

/// An item of `feed` or `first`: what is read, and the result that it becomes.
struct Fed {
  Name target, result;
  plan::NamePattern targets, results;
};

struct Loop {
  std::vector<Fed> feed, first;
  int64_t steps = 1;
  std::optional<Name> until;
  std::vector<Name> last;
  Span span;
};

struct Job {
  Name name;
  bool train = false;
  Placement placement;
  int64_t shards = 1;  // of a batch
  std::string precision = "float32";
  bool deterministic = true;
  std::vector<Input> inputs;
  Graph graph;
  std::optional<Optimizer> optimizer;
  std::optional<Returns> returns;
  std::vector<Hook> hooks;
  std::vector<std::pair<std::string, plan::Metric>> metrics;  // by name: an entry, and a hook
  plan::Run run;
  std::optional<Loop> loop;
  std::vector<Span> also_spans;  // of the names in run.also
  FollowedPlace early_stopping_place, keep_best_place;
};

struct File {
  uint64_t seed = 0;
  std::vector<Dataset> datasets;
  std::vector<Network> networks;
  std::vector<Name> uncalled;  // networks that no entry calls
  std::vector<Job> jobs;
};

}  // namespace flow::job
