// What a run decides by values that it follows.
#include "runtime/exec/run/decisions.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace flow::exec {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

plan::FollowedValue value(plan::Mode mode = plan::Mode::kMin) {
  return {.text = "eval.loss", .job = "eval", .tensor = "loss", .mode = mode, .where = {}};
}

plan::Job stopping(int64_t patience, double min_delta = 0, plan::Mode mode = plan::Mode::kMin) {
  plan::Job job;
  job.run.early_stopping = {value(mode), patience, min_delta};
  return job;
}

plan::Job with_plateau(const plan::schedules::Plateau& rule) {
  plan::Job job;
  job.optimizer.emplace();
  job.optimizer->learning_rate = {rule, {}, value()};
  return job;
}

/// After how many of the values the run stops; 0: after none.
size_t stop_of(const plan::Job& job, const std::vector<double>& values) {
  Decisions decisions(job, {});
  for (size_t i = 0; i < values.size(); ++i) {
    decisions.take(*decisions.values_of("eval").front(), values[i], static_cast<int64_t>(i) + 1);
    if (decisions.stops()) return i + 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("a run stops after so many values in a row that do not improve", "[exec]") {
  CHECK(stop_of(stopping(1), {3, 2, 2}) == 3);
  CHECK(stop_of(stopping(2), {3, 2, 2.5, 1, 1.5, 1}) == 6);
  CHECK(stop_of(stopping(2), {3, 2, 2.5, 1, 1.5, 0.5}) == 0);
  CHECK(stop_of(stopping(2, 0, plan::Mode::kMax), {1, 2, 1, 2}) == 4);
  CHECK(stop_of(stopping(2, 0, plan::Mode::kMax), {1, 2, 1, 3}) == 0);
}

TEST_CASE("a change of min_delta is no improvement yet", "[exec]") {
  CHECK(stop_of(stopping(1, 0.5), {3, 2.5}) == 2);
  CHECK(stop_of(stopping(1, 0.5), {3, 2.25, 1.5}) == 0);
  CHECK(stop_of(stopping(1, 0.5, plan::Mode::kMax), {1, 1.5}) == 2);
  // Small steps add up against the best, not against the last.
  CHECK(stop_of(stopping(2, 0.5), {3, 2.75, 2.25, 2.25}) == 0);
}

TEST_CASE("what is not a number improves nothing", "[exec]") {
  CHECK(stop_of(stopping(2), {kNone, kNone}) == 2);
  CHECK(stop_of(stopping(2), {kNone, 5, kNone, 4}) == 0);
  CHECK(stop_of(stopping(1), {std::numeric_limits<double>::infinity()}) == 1);
  const plan::Job job = stopping(1);
  Decisions undefined(job, {});
  undefined.take(*undefined.values_of("eval").front(), kNone, 1);
  CHECK(undefined.why_it_stops() == "`eval.loss` was not a number for the last value");
}

TEST_CASE("the reason of a stop has the best value and its step", "[exec]") {
  const plan::Job job = stopping(2);
  Decisions decisions(job, {});
  const plan::FollowedValue& followed = *decisions.values_of("eval").front();
  for (const int64_t step : {10, 20, 30}) decisions.take(followed, 0.25, step);
  CHECK(decisions.stops());
  CHECK(decisions.why_it_stops() ==
        "`eval.loss` did not improve on 0.25, after 10 steps, for 2 values in a row");
}

TEST_CASE("decisions go on from a record, but not from that of another value", "[exec]") {
  const plan::Job job = stopping(3);
  Decisions begun(job, {});
  const plan::FollowedValue& followed = *begun.values_of("eval").front();
  for (const double number : {2.0, 2.5, 3.0}) begun.take(followed, number, 1);
  Decisions resumed(job, begun.records());
  resumed.take(followed, 2, 4);
  CHECK(resumed.stops());

  plan::Job other = job;
  other.run.early_stopping->value.text = "eval.error";
  CHECK(Decisions(other, begun.records()).records().at("early_stopping").bad == 0);
  other = job;
  other.run.early_stopping->value.mode = plan::Mode::kMax;
  CHECK(Decisions(other, begun.records()).records().at("early_stopping").bad == 0);
}

TEST_CASE("the first of equal values is the best", "[exec]") {
  plan::Job job;
  job.run.checkpoint.keep_best = value(plan::Mode::kMax);
  Decisions decisions(job, {});
  const plan::FollowedValue& followed = *decisions.values_of("eval").front();
  CHECK_FALSE(decisions.best_step());
  CHECK_FALSE(decisions.take(followed, kNone, 5));
  CHECK_FALSE(decisions.best_step());
  CHECK(decisions.take(followed, 0.5, 10));
  CHECK_FALSE(decisions.take(followed, 0.5, 20));
  CHECK(decisions.best_step() == 10);
  CHECK(decisions.take(followed, 0.75, 30));
  CHECK(decisions.best_step() == 30);
}

TEST_CASE("each value is taken once, for all that follows from it", "[exec]") {
  plan::Job job = with_plateau({.base = 1, .factor = 0.5, .patience = 0});
  job.run.early_stopping = {value(), 1, 0};
  job.run.checkpoint.keep_best = value();
  job.run.checkpoint.keep_best->mode = plan::Mode::kMax;
  const Decisions decisions(job, {});
  CHECK(decisions.values_of("eval").size() == 1);
  CHECK(decisions.values_of("").empty());
  job.run.checkpoint.keep_best->job.clear();
  CHECK(Decisions(job, {}).values_of("").size() == 1);
}

TEST_CASE("a rate falls after more values than its patience, waits, and stays above the smallest",
          "[exec]") {
  const plan::Job job = with_plateau({.base = 1,
                                      .factor = 0.5,
                                      .patience = 1,
                                      .min_delta = 0,
                                      .cooldown = 2,
                                      .min_lr = 0.2,
                                      .epsilon = 1e-8});
  Decisions decisions(job, {});
  std::vector<double> rates;
  for (int i = 0; i < 14; ++i) {
    decisions.take(*decisions.values_of("eval").front(), 1, i + 1);
    rates.push_back(*decisions.learning_rate());
  }
  // The first value is an improvement; two that are none; two that do not count, and two more.
  CHECK(rates ==
        std::vector<double>{1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2});
}

TEST_CASE("a rate does not fall by less than epsilon", "[exec]") {
  const plan::schedules::Plateau rule{.base = 1, .factor = 0.5, .min_lr = 0, .epsilon = 0.25};
  CHECK(rule.reduced(1) == 0.5);
  CHECK(rule.reduced(0.5) == 0.5);
}

}  // namespace flow::exec
