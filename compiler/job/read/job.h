// Declares the contents of a job file as C++ values. Each section is checked separately, and has
// the positions that later stages need for messages. Names are not resolved yet.
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

/// What the keys of a column determine about the shape of its rows.
struct RowForm {
  std::vector<std::optional<int64_t>> extents = {};  // nothing for an unknown extent
  bool open = true;                                  // further axes can follow
  bool scalar = false;                               // one element; the input can have any rank

  bool is_exact() const;
  bool accepts(const Shape& row) const;
  /// Returns a text such as "[3, ?, ?]", "[16, ...]" or "[]".
  std::string str() const;
};

struct Column {
  // Its row_shape comes from the keys of the column, or else from the input that reads it.
  plan::Column plan;
  RowForm row;
  Span span;                 // of the key that determines the form of a row, or of the column's key
  Span mean_span, std_span;  // invalid if absent
};

struct Dataset {
  Name name;
  std::vector<Column> columns;
  plan::Dataset options;    // without columns
  std::vector<Name> parts;  // the names of the parts of `split`
  bool is_liked = false;    // `like` of another column or dataset names it
};

/// An operand of an entry as written: a name, a path, or a number.
struct Operand {
  std::string text;
  Span span;
  bool given = true;  // false for an optional operand that is absent
};

struct Placement {
  std::string type = "auto";  // auto, gpu or cpu
  Span ids_span;
  std::vector<plan::DeviceRange> ids;  // empty if absent or invalid
  int64_t devices = 1;                 // the number of devices in `ids`
};

/// The value of `variable_dtype:`, which applies to frozen variables of an entry.
struct VariableDType {
  std::optional<DType> dtype;  // empty for the float dtype of the job
  Span span;
};

/// An entry of a graph: a call of an op or of a network.
struct Entry {
  Name name;
  Name op;
  const ops::OpSpec* def = nullptr;  // a built-in op, or null
  std::optional<size_t> network;     // index of a network of the file
  std::vector<Operand> operands;     // in the order of the op or network
  ir::Attributes attributes;         // as written, without defaults
  std::vector<std::pair<std::string, WrittenInitializer>> initializers;
  AttributeSpans spans;
  bool trainable = true;
  bool training = true;                         // if false, computes as in a predict job
  bool per_shard = false;                       // computed from only the rows of each shard
  std::optional<Name> variables;                // the entry whose variables it uses
  std::optional<VariableDType> variable_dtype;  // if empty, that of its network applies
  std::optional<Placement> placement;           // if empty, that of its network or job applies
  /// The copies that `repeat:` makes. Each copy reads the previous one as its first operand. The
  /// members above are those of the first copy, except for the operands, which contain everything
  /// that any copy reads.
  std::vector<Entry> copies;
  bool has_error = false;  // an error was reported, so the result is unknown
};

/// Entries in an order in which each comes after those that it reads.
struct Graph {
  std::vector<Entry> entries;
};

/// A network that was read with one set of arguments.
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
  bool rows = true;  // the leading axis contains rows
  plan::InputSource source;
  std::optional<std::pair<int64_t, int64_t>> range = {};
  Span shape_span, dtype_span, from_span;  // from_span is invalid if `from:` is absent
  bool has_error = false;
};

/// The position of the name of a value that a run follows.
struct FollowedPlace {
  Span span;
  bool has_mode = false;  // if false, the value determines the mode
};

struct Optimizer {
  plan::OptimizerRule rule;
  std::optional<std::vector<Name>> includes, excludes;  // globs of the variables with weight decay
  // Globs of the matrices that muon leaves to adamw.
  std::optional<std::vector<Name>> adamw;
  plan::Schedule learning_rate;
  // Globs and factors. The last glob that matches applies.
  std::vector<std::pair<Name, double>> learning_rate_scales;
  std::vector<Name> minimize;
  std::optional<std::vector<Name>> variables;  // globs of the trained variables
  std::optional<double> clip_norm, clip_value;
  double clip_epsilon = 0;
  // Computes the norm of all gradients, even without clipping by it.
  bool norm = false;
  std::optional<LossScale> loss_scale;
  std::optional<double> ema_decay;
  std::optional<plan::Lookahead> lookahead;
  FollowedPlace follows_place;  // of the value that a plateau watches
  Span span;
  bool complete = true;  // false after an error
};

/// The nested value of a return, with names that are not resolved yet.
struct ReturnValue {
  plan::ReturnValue::Kind kind = plan::ReturnValue::Kind::kNumpy;
  std::string name;  // the name of a leaf
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

/// A hook of the file, without its tensors. A glob or a scope becomes several hooks of the plan.
struct Hook {
  enum class Kind { kWatch, kWatchDiff, kWatchScope };
  static constexpr int64_t kForever = INT64_MAX;

  Hook() { plan.steps = {{0, kForever, 1}}; }

  Kind kind = Kind::kWatch;
  // The name or glob of tensors, or the scope: the beginning of their names.
  Name pattern;
  std::optional<Name> output;  // the value of `as:`
  plan::Hook plan;
  bool mean = false;      // set by `of: mean`
  bool diffs = false;     // a scope also watches gradients
  bool followed = false;  // made for a value that a run follows
  bool metric = false;    // made for a metric, which is needed in each step
  Span span, when_span;
};

/// An item of `feed` or `first`: the name that is read, and the result that replaces it.
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
  int64_t shards = 1;  // the number of shards of a batch
  std::string precision = "float32";
  bool deterministic = true;
  std::vector<Input> inputs;
  Graph graph;
  std::optional<Optimizer> optimizer;
  std::optional<Returns> returns;
  std::vector<Hook> hooks;
  // Metrics by name. Each metric also has an entry and a hook.
  std::vector<std::pair<std::string, plan::Metric>> metrics;
  plan::Run run;
  std::optional<Loop> loop;
  std::vector<Span> also_spans;  // the positions of the names in run.also
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
