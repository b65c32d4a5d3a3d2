// Averages of variables, and the rules of Lookahead, which store a variable at the start of a cycle
// of steps and move it at the end. These rules have no gradient: their first operand is another
// array.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

void infer_average(ops::Call& call);
void infer_lookahead(ops::Call& call);

/// Moves an average toward its variable, which is the first operand. An average that equals its
/// variable does not change.
struct Ema : Rule {
  static constexpr int kMoved = 1;
  double decay;

  explicit Ema(const Attributes& attributes)
      : Rule(attributes), decay(attributes.get<double>("decay")) {}

  template <typename T>
  struct Move {
    T rest;
    bool first;
    FLOW_INLINE void operator()(T w, T (&values)[kMoved]) const {
      values[0] = first ? w : values[0] + rest * (w - values[0]);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double, const UpdateCall& call) const {
    return {static_cast<T>(1 - decay), call.step == 0};
  }
  void exact(double w, double, double (&values)[kMoved], const UpdateCall& call) const {
    values[0] = call.step == 0 ? w : values[0] + (1 - decay) * (w - values[0]);
  }
};

inline OpSpec ema_update() {
  return {
      .name = "ema_update",
      .doc = "Moves an average toward the new value of its variable.",
      .formula = "ema = value in step 0, else ema + (1 - decay) (value - ema)",
      .operands = {{"value", "the updated variable"}, {"ema", "its average, of the same shape"}},
      .attributes = {ops::required_fraction("decay", "fraction of the average to keep")},
      .results = ops::updated_with({}),
      .infer = infer_average,
      .flops = {3},
      .internal = true};
}

/// Stores the variable, which is the first operand, at the start of a cycle of steps.
struct LookaheadStart : Rule {
  static constexpr int kMoved = 1;
  int64_t steps;  // steps per cycle

  explicit LookaheadStart(const Attributes& attributes)
      : Rule(attributes), steps(attributes.get<int64_t>("steps")) {}

  template <typename T>
  FLOW_HOST_DEVICE bool idle(const UpdateCall& call) const {
    return call.step % steps != 0;
  }
  template <typename T>
  struct Move {
    FLOW_INLINE void operator()(T w, T (&values)[kMoved]) const { values[0] = w; }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double, const UpdateCall&) const {
    return {};
  }
  void exact(double w, double, double (&values)[kMoved], const UpdateCall&) const { values[0] = w; }
};

inline ops::AttributeSpec cycle_steps() {
  return ops::integer_attribute("steps", "", "steps of a cycle", 1);
}

inline OpSpec lookahead_start() {
  return {.name = "lookahead_start",
          .doc = "Keeps a variable as it is before a cycle of Lookahead (Zhang et al., 2019).",
          .formula = "slow = w where step is a multiple of steps, else slow",
          .operands = {{"weight", "w, before its update"}, {"slow", "optimizer state, like w"}},
          .attributes = {cycle_steps()},
          .results = ops::updated_with({}),
          .infer = infer_lookahead,
          .flops = {0},
          .internal = true};
}

/// Moves the variable at the end of a cycle. The first operand is the variable at the start of the
/// cycle.
struct LookaheadUpdate : Rule {
  static constexpr int kMoved = 1;
  int64_t steps;
  double alpha;

  explicit LookaheadUpdate(const Attributes& attributes)
      : Rule(attributes),
        steps(attributes.get<int64_t>("steps")),
        alpha(attributes.get<double>("alpha")) {}

  template <typename T>
  FLOW_HOST_DEVICE bool idle(const UpdateCall& call) const {
    return (call.step + 1) % steps != 0;
  }
  template <typename T>
  struct Move {
    T alpha;
    FLOW_INLINE void operator()(T slow, T (&values)[kMoved]) const {
      values[0] = slow + alpha * (values[0] - slow);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double, const UpdateCall&) const {
    return {static_cast<T>(alpha)};
  }
  void exact(double slow, double, double (&values)[kMoved], const UpdateCall&) const {
    values[0] = slow + alpha * (values[0] - slow);
  }
};

inline OpSpec lookahead_update() {
  return {.name = "lookahead_update",
          .doc = "Ends a cycle of Lookahead: part of the way from its start to where it led.",
          .formula = "w = slow + alpha (w - slow) where t is a multiple of steps, else w",
          .operands = {{"slow", "the variable before the cycle"},
                       {"updated", "w, the updated variable, of the same shape"}},
          .attributes = {cycle_steps(), ops::required_magnitude("alpha", "part of the way to go")},
          .results = {{.name = "replacement", .replaces = size_t{1}}},
          .infer = infer_lookahead,
          .for_updates = true,
          .flops = {3},
          .internal = true};
}

}  // namespace flow::optimizers
