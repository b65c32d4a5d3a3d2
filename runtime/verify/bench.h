// The common part of the checks of properties: the plan of the job for trials, its reference run,
// and settings.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/verify/verify.h"

namespace flow::verify {

/// Thrown if a check does not apply, with the reason.
class NotApplicable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Bench {
 public:
  explicit Bench(Request request);

  const Request& request() const { return request_; }
  /// Returns the plan of FILE, bounded for trials.
  const plan::Plan& plan() const { return plan_; }
  const plan::Job& job() const { return job_of(plan_, request_.trials.job); }
  /// Returns the plan for trials: nothing is saved, and jobs that it calls are called once.
  plan::Plan bounded(plan::Plan plan) const;
  /// Compiles FILE with more overrides and bounds the plan. Throws NotApplicable if FILE is a plan,
  /// or if it has an error with these overrides.
  plan::Plan compile(const Variant& variant) const;
  /// Compiles as above, but in float64, in which losses need no scale.
  plan::Plan compile_exact(Variant variant) const;

  /// Returns the run with which others are compared. It is run once. Throws RunError if it fails.
  const TrialEnd& reference();
  int64_t steps() { return reference().steps; }
  /// Returns the number of steps after which a run stops to be continued. Throws RequestError if no
  /// step would be left.
  int64_t at();

  /// Sets the damage for all trials that are compared with a reference, or removes it if `kind` is
  /// empty.
  void damage(std::optional<DamageKind> kind) {
    damage_ = kind;
    damaged_.clear();
  }
  /// Returns what the damage did in the trials since it was set.
  const std::string& damaged() const { return damaged_; }

  void note_damage(const std::string& done) { damaged_ = done; }
  bool scales_gradients() const { return damage_ == DamageKind::kGradient; }

  /// Runs the trial, with the damage from the middle on if one is set. Throws NotApplicable if the
  /// trial is refused, and RunError if it fails or cannot continue after a first part.
  fs::path run(Trial trial);
  /// Runs the trial without damage.
  TrialEnd run_whole(const Trial& trial) const;
  /// Returns a name for a folder that no other trial has.
  std::string folder_for(const std::string& name) { return name + std::to_string(++count_); }

 private:
  Request request_;
  plan::Plan plan_;
  std::optional<TrialEnd> reference_;
  std::optional<DamageKind> damage_;
  std::string damaged_;
  int count_ = 0;
};

/// Runs the trial, compares it with the reference, and removes the files that it wrote. `what`
/// describes the run in a few words, for the result: "1 thread". Returns false if the trial
/// differs, and then puts the difference into `result`.
bool compare_trial(Bench& bench, const Trial& trial, const std::string& what, Result& result,
                   const RunRules& rules = {});

/// Compares two existing runs in the same way.
bool compare_directory(const fs::path& first, const fs::path& second, const std::string& what,
                       Result& result, const RunRules& rules = {});

Result check_gradients(Bench& bench);
Result check_precision(Bench& bench);
Result check_shards(Bench& bench);

enum class Slope {
  kAgrees,
  kDiffers,
  kKink,    // the loss has a kink at 0: its slopes on both sides differ
  kUnclear  // the loss has a kink near 0, so that the differences prove nothing
};

/// The comparison of a gradient with differences of the loss along one direction.
struct SlopeCheck {
  Slope slope = Slope::kAgrees;
  double measured = 0;  // the slope that the differences give
  double error = 0;     // the distance of the gradient from it
};

/// Checks the slope along one direction. `loss_at(h)` is the loss, in float64, at the distance h
/// along the direction. `expected` is the slope at 0 that the gradient gives. `norm` is the norm of
/// the gradient, which is the size of slopes in random directions. `step` is the largest h.
///
/// Central differences at h and h/2 (Richardson's extrapolation) have an error of O(h^4) if the
/// loss is smooth. If they disagree with the gradient, there are two signs of kinks: forward and
/// backward differences stay apart as h shrinks, or the two central differences are not much closer
/// to each other than to the gradient.
SlopeCheck check_slope(const std::function<double(double)>& loss_at, double expected, double norm,
                       double step);

/// Returns true if the loss has a kink along a part of a direction along which the gradient seems
/// wrong. Kinks of several elements can cancel each other in the test for `Slope::kKink`, and still
/// add up in the error. The kinks of one element cannot. The half with the larger error is
/// therefore halved again, down to one element if necessary. `check(first, last)` returns the slope
/// along the elements first to last - 1 of the direction.
bool bends_in_part(size_t elements, const std::function<SlopeCheck(size_t, size_t)>& check);

}  // namespace flow::verify
