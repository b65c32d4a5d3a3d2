// What checks of properties share: the job's plan for trials, its reference run, settings.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/verify/verify.h"

namespace flow::verify {

/// A check that does not apply, and why.
class NotApplicable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Bench {
 public:
  explicit Bench(Request request);

  const Request& request() const { return request_; }
  /// FILE's plan, bounded for trials.
  const plan::Plan& plan() const { return plan_; }
  const plan::Job& job() const { return job_of(plan_, request_.trials.job); }
  /// The plan for trials: nothing is saved, and jobs that it calls are called once.
  plan::Plan bounded(plan::Plan plan) const;
  /// FILE compiled with more overrides, bounded. NotApplicable where FILE is a plan, or that has an
  /// error.
  plan::Plan compile(const Variant& variant) const;
  /// The same in float64, in which losses need no scale.
  plan::Plan compile_exact(Variant variant) const;

  /// The run that others are compared with, made once. RunError where it fails.
  const TrialEnd& reference();
  int64_t steps() { return reference().steps; }
  /// After how many steps a run stops to be continued. RequestError where none is left.
  int64_t at();

  /// Damage for all trials that are compared with a reference, until it is taken away.
  void damage(std::optional<DamageKind> kind) {
    damage_ = kind;
    damaged_.clear();
  }
  /// What it did in the trials since.
  const std::string& damaged() const { return damaged_; }

  void note_damage(const std::string& done) { damaged_ = done; }
  bool scales_gradients() const { return damage_ == DamageKind::kGradient; }

  /// Runs it, damaged from the middle on where damage is asked for. NotApplicable where it is
  /// refused, RunError where it fails, or cannot go on after a first part.
  fs::path run(Trial trial);
  /// The same without damage.
  TrialEnd run_whole(const Trial& trial) const;
  /// A name for a folder that no other trial has.
  std::string folder_for(const std::string& name) { return name + std::to_string(++count_); }

 private:
  Request request_;
  plan::Plan plan_;
  std::optional<TrialEnd> reference_;
  std::optional<DamageKind> damage_;
  std::string damaged_;
  int count_ = 0;
};

/// Runs the trial and compares it with the reference; removes what it wrote. `what`: the run in a
/// few words, for the result: "1 thread". False where it differs, which `result` then tells.
bool compare_trial(Bench& bench, const Trial& trial, const std::string& what, Result& result,
                   const RunRules& rules = {});

/// The same of a run that is there.
bool compare_directory(const fs::path& first, const fs::path& second, const std::string& what,
                       Result& result, const RunRules& rules = {});

Result check_gradients(Bench& bench);
Result check_precision(Bench& bench);
Result check_shards(Bench& bench);

enum class Slope {
  kAgrees,
  kDiffers,
  kKink,    // the loss bends at 0: its slopes to both sides are not one
  kUnclear  // it bends beside 0, within the differences: they say nothing
};

/// A gradient against differences of the loss along one direction.
struct SlopeCheck {
  Slope slope = Slope::kAgrees;
  double measured = 0;  // the slope that differences give
  double error = 0;     // how far the gradient is from it
};

/// `loss_at(h)`: the loss, in float64, h along the direction. `expected`: the slope at 0 that the
/// gradient gives. `norm`: of the gradient, the size that slopes in random directions have. `step`:
/// the largest h.
///
/// Central differences at h and h/2 (Richardson's extrapolation) err by O(h^4) where the loss is
/// smooth. Where they disagree with the gradient, two signs show bends: forward and backward
/// differences stay apart as h shrinks, or the two central differences are not much closer to each
/// other than to the gradient.
SlopeCheck check_slope(const std::function<double(double)>& loss_at, double expected, double norm,
                       double step);

/// Does the loss bend along a part of a direction along which the gradient seems wrong? Bends of
/// several elements can cancel each other in `Slope::kKink`'s test, and add up in the error. Those
/// of one element cannot: the half with the larger error is halved again, to one element if need
/// be. `check(first, last)`: the slope along elements first to last - 1 of the direction.
bool bends_in_part(size_t elements, const std::function<SlopeCheck(size_t, size_t)>& check);

}  // namespace flow::verify
