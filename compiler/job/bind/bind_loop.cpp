// Resolves the names of a loop to values of its states, and stacks the returned results of passes.
#include "compiler/job/bind/bind.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/passes/passes.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

using ir::ValueId;

class LoopBinder {
 public:
  LoopBinder(Reader& reader, Instance& instance, const Job& job, Bindings& bound)
      : reader_(reader),
        instance_(instance),
        graph_(instance.graph),
        job_(job),
        loop_(*job.loop),
        bound_(bound) {}

  bool run() {
    const size_t before = reader_.diags.error_count();
    for (const Fed& fed : loop_.feed) feed(fed);
    for (const Fed& fed : loop_.first) replace_first(fed);
    if (reader_.diags.error_count() > before) return false;
    varies_ = passes::values_of_passes(graph_);
    for (const ir::State& state : graph_.loop->states) check_first(state);
    check_draws();
    bind_until();
    for (const Name& name : loop_.last) check_last(name);
    check_hooks();
    if (reader_.diags.error_count() > before) return false;
    size_t next = 0;
    if (job_.returns) bind_returned(job_.returns->value, next);
    return reader_.diags.error_count() == before;
  }

 private:
  template <typename... Args>
  Diag& error(Span span, fmt::format_string<Args...> format, Args&&... args) {
    return reader_.error(Diagnosis::kLoop, span, fmt::format(format, std::forward<Args>(args)...));
  }

  /// Calls f(state, name of the result) for each state that the item names.
  template <typename F>
  void for_each_state(const Fed& fed, std::string_view key, F f) {
    bool any = false;
    for (ir::State& state : graph_.loop->states) {
      const auto captures = fed.targets.match(state.name);
      if (!captures) continue;
      any = true;
      const auto result = fed.results.fill(*captures);
      if (result)
        f(state, Name{*result, fed.result.span});
      else
        error(fed.result.span, "`{}` has no number to add to for `{}`", fed.result.text,
              state.name);
    }
    if (any || instance_.has_error()) return;
    error(fed.target.span, "`{}`: no input or entry `{}`", key, fed.target.text)
        .with_hint(key == "first"
                       ? "name an input or entry of `feed`"
                       : suggestion(fed.target.text, instance_.names(), "available names:"));
  }

  void feed(const Fed& fed) {
    for_each_state(fed, "feed", [&](ir::State& state, const Name& name) {
      if (state.updated.valid()) {
        error(fed.target.span, "`{}` is fed twice", state.name);
        return;
      }
      state.updated = result_for(state, name, "`feed`");
    });
  }

  void replace_first(const Fed& fed) {
    for_each_state(fed, "first", [&](ir::State& state, const Name& name) {
      state.first = result_for(state, name, "`first`");
    });
  }

  /// Returns the value with that name, or an invalid id after an error.
  ValueId result_for(const ir::State& state, const Name& name, const char* what) {
    const ValueId found = instance_.require(name, what).value;
    if (!found.valid()) return {};
    const ir::Value &value = graph_[found], &read = graph_[state.value];
    const bool rows = read.batch_axis < 0 || value.batch_axis == read.batch_axis;
    if (value.dtype == read.dtype && value.shape == read.shape && rows) return found;
    Diag& diag = error(
        name.span, "{}",
        value.dtype == read.dtype && value.shape == read.shape
            ? fmt::format("the rows of `{}` are not those of `{}`", name.text, state.name)
            : fmt::format("`{}` is {} {}; expected {} {} as `{}`", name.text, name_of(value.dtype),
                          value.shape.str(), name_of(read.dtype), read.shape.str(), state.name));
    diag.with_hint(value.dtype != read.dtype
                       ? fmt::format("convert with `{{op: cast, dtype: {}}}`", name_of(read.dtype))
                   : value.shape != read.shape
                       ? "change the shape of the input or entry, or `reshape` the result"
                       : "write `rows: false` at the input");
    return {};
  }

  bool varies(ValueId value) const {
    return value.index() < varies_.size() && varies_[value.index()];
  }

  void check_first(const ir::State& state) {
    if (!varies(state.first)) return;
    error(loop_.span, "the first value of `{}` depends on what the loop feeds", state.name)
        .with_hint("name a result that depends on no fed value in `first`");
  }

  /// Reports random numbers that are used both for a first value, which draws them once, and in
  /// each pass, which draws them again.
  void check_draws() {
    std::vector<bool> drawn(graph_.values.size());
    for (const ir::Node& node : graph_.nodes) {
      const std::vector<ValueId> reads = passes::reads_of(node);
      const auto read = std::ranges::find_if(reads, [&](ValueId id) { return drawn[id.index()]; });
      const bool draws = node.attributes.has("consumer") && !node.op->draws_by_position;
      if (!varies(node.results[0]))
        for (const ValueId result : node.results)
          drawn[result.index()] = draws || read != reads.end();
      else if (read != reads.end())
        error(node.span,
              "`{}` reads `{}` in each pass, whose random numbers are drawn once, for a "
              "first value; expected separate draws",
              node.name, graph_[*read].name)
            .with_hint(
                "write an entry of its own for new numbers in each pass; for the same numbers, use "
                "an input with `from: {type: random_normal}`");
    }
  }

  void bind_until() {
    if (!loop_.until) return;
    const ValueId until = instance_.require(*loop_.until, "`until`").value;
    if (!until.valid()) return;
    if (graph_[until].dtype != DType::kBool)
      error(loop_.until->span, "`until` is `{}`, which is {}; expected bool", loop_.until->text,
            name_of(graph_[until].dtype))
          .with_hint("compare it: `{op: greater_equal, in: [NAME, LIMIT]}`");
    else if (!varies(until) || graph_.loop->state_of(until))
      error(loop_.until->span, "no pass computes `{}`; expected a result of the loop",
            loop_.until->text)
          .with_hint("name the result that is fed back, or one that depends on it");
    graph_.loop->until = until;
    graph_.results.push_back(until);
  }

  void check_last(const Name& name) {
    const ValueId value = instance_.require(name, "`last`").value;
    if (!value.valid() || std::ranges::count(bound_.returned, value) > 0) return;
    error(name.span, "`{}` of `last` is not returned", name.text)
        .with_hint("add it to the `value` of `returns`");
  }

  bool is_last(ValueId value) const {
    return std::ranges::any_of(
        loop_.last, [&](const Name& name) { return instance_.find(name.text).value == value; });
  }

  /// Reports a state that is used as a result, because a state has no value before the first call.
  bool is_state(ValueId value, const std::string& name, Span span) {
    const ir::State* state = graph_.loop->state_of(value);
    if (!state) return false;
    error(span, "`{}` is fed by the loop; expected a result", name)
        .with_hint(graph_.loop->state_of(state->updated)
                       ? "use an entry that computes something from it"
                       : fmt::format("use `{}`, which is fed to it", graph_[state->updated].name));
    return true;
  }

  /// Reports hooks that name a state. Scopes and globs skip states.
  void check_hooks() {
    for (const Watched& watched : bound_.watched)
      if (watched.hook->pattern.text == watched.name || watched.hook->output)
        is_state(watched.value, watched.name, watched.hook->pattern.span);
    std::erase_if(bound_.watched, [&](const Watched& watched) {
      return graph_.loop->state_of(watched.value) != nullptr;
    });
    std::erase_if(graph_.watched,
                  [&](ValueId value) { return graph_.loop->state_of(value) != nullptr; });
  }

  void bind_returned(const ReturnValue& value, size_t& next) {
    for (const ReturnValue& item : value.items) bind_returned(item, next);
    if (!value.items.empty()) return;
    ValueId& returned = bound_.returned[next++];
    if (is_state(returned, value.name, value.span) || !varies(returned)) return;
    if (is_last(returned))
      returned = add_after("reshape", value, "last", {returned},
                           {{"shape", graph_[returned].shape.extents()}});
    else
      returned = stack(value, returned);
    if (returned.valid()) graph_.results.push_back(returned);
  }

  ValueId add(std::string_view op, const std::string& name, std::vector<ValueId> operands,
              const ir::Attributes& attributes) {
    return instance_.builder().add(op, name, std::move(operands), attributes, loop_.span);
  }

  /// Adds a node that runs after the last pass.
  ValueId add_after(std::string_view op, const ReturnValue& returned, std::string_view what,
                    std::vector<ValueId> operands, const ir::Attributes& attributes) {
    const ValueId made =
        add(op, fmt::format("{}:{}", returned.name, what), std::move(operands), attributes);
    graph_.nodes.back().loop_part = ir::LoopPart::kAfter;
    return made;
  }

  ValueId fill(const std::string& name, double value, const Shape& shape, DType dtype) {
    return add("fill", name, {}, {{"value", value}, {"shape", shape.extents()}, {"dtype", dtype}});
  }

  /// Adds a state, and lets each pass update it to the result of `update(state)`.
  template <typename F>
  ValueId add_state(const std::string& name, ValueId first, F update) {
    const ValueId value = instance_.builder().add_state(name, first);
    const ValueId updated = update(value);
    graph_.loop->states.back().updated = updated;
    return value;
  }

  /// Returns a state that counts the passes from 0.
  ValueId pass() {
    if (!pass_.valid())
      pass_ =
          add_state("loop:pass", fill("loop:first_pass", 0, {}, DType::kInt32), [&](ValueId at) {
            one_ = fill("loop:one", 1, {}, DType::kInt32);
            return passes_ = add("add", "loop:passes", {at, one_}, {});
          });
    return pass_;
  }

  /// Returns a tensor that contains the results of all passes along a new axis. The new axis is the
  /// second if the results have rows along the first, and otherwise the first.
  ValueId stack(const ReturnValue& returned, ValueId value) {
    const ir::Value result = graph_[value];
    if (result.shape.rank() == plan::kMaxRank) {
      error(returned.span,
            "cannot stack `{}` {} along a new axis; expected at most {} "
            "dimensions",
            returned.name, result.shape.str(), plan::kMaxRank - 1)
          .with_hint("list it in `last`, or `reshape` it");
      return {};
    }
    const int64_t axis = result.batch_axis == 0 ? 1 : 0;
    std::vector<int64_t> extents = result.shape.extents();
    extents.insert(extents.begin() + axis, loop_.steps);
    const ir::Attributes along = {{"axis", axis}};
    const ValueId at = pass();
    ValueId all;
    const ValueId none = fill(returned.name + ":none", 0, Shape(extents), result.dtype);
    if (!none.valid()) return {};
    add_state(returned.name + ":passes", none, [&](ValueId passed) {
      return all = add("scatter_update", returned.name + ":stacked", {passed, at, value}, along);
    });
    if (!graph_.loop->until.valid())
      return add_after("reshape", returned, "all", {all}, {{"shape", extents}});
    return add_after("gather", returned, "all", {all, numbers_of_passes()}, along);
  }

  /// Returns the number of each pass. Passes that were not run have the number of the last pass
  /// that was run.
  ValueId numbers_of_passes() {
    if (numbers_.valid()) return numbers_;
    const ValueId number = add("evenly_spaced", "loop:numbers", {},
                               {{"first", 0.0},
                                {"last", static_cast<double>(loop_.steps - 1)},
                                {"count", loop_.steps},
                                {"dtype", DType::kInt32}});
    const ValueId last = add("subtract", "loop:last", {passes_, one_}, {});
    graph_.nodes.back().loop_part = ir::LoopPart::kAfter;
    numbers_ = add("minimum", "loop:made", {number, last}, {});
    graph_.nodes.back().loop_part = ir::LoopPart::kAfter;
    return numbers_;
  }

  Reader& reader_;
  Instance& instance_;
  ir::Graph& graph_;
  const Job& job_;
  const Loop& loop_;
  Bindings& bound_;
  std::vector<bool> varies_;  // indexed by ValueId: whether each pass computes the value
  ValueId pass_, passes_, one_, numbers_;
};

}  // namespace

bool bind_loop(Reader& reader, Instance& instance, const Job& job, Bindings& bound) {
  return LoopBinder(reader, instance, job, bound).run();
}

}  // namespace flow::job
