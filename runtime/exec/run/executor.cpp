// The three threads that run a job, and the counters that synchronize them.
//
//            input slots               output slots, records
//              filled_                       computed_
//   +------+             +---------+                        +---------+   values    +-------+
//   | feed | ----------> | compute | ---------------------> | deliver | ----------> | sinks |
//   +------+             +---------+                        +---------+             +-------+
//      ^                   |     ^                            |  |  |    on_step    +-------+
//      |     consumed_     |     |   reached_, finished_      |  |  +-------------> |  log  |
//      +-------------------+     +----------------------------+  |                  +-------+
//      |                        consumed_, if in_step_           |
//      +---------------------------------------------------------+
//
// Each counter contains the number of steps for which its condition is true:
//   filled_    feed -> compute     the inputs are in their slot
//   computed_  compute -> deliver  the call is complete, its record filled in
//   consumed_  compute -> feed     the input slot is free; with in_step_, deliver raises it
//   reached_   deliver -> compute  the sinks have the values: the output slot is free, and in a
//                                  synchronous job the next call may start
//   finished_  deliver -> compute  the step is logged and its checkpoint written: its record and
//                                  the captured state are free
// In a synchronous job, the compute thread itself adds values to the sums of a sink if a call
// delivers nothing else.
//
// A thread that ends closes its counters (compute and deliver both close consumed_), so that the
// other threads end, too. A run of one step needs no overlap: its stages run one after another.
#include "runtime/exec/run/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/plan/model/schedule.h"

namespace flow::exec {
namespace {

/// Restores C++'s default arithmetic on the compute thread while this object exists. A backend may
/// flush denormal numbers to 0 there, and values that are read here must not depend on that.
class PlainArithmetic {
 public:
  PlainArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&before_); }
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

using Clock = std::chrono::steady_clock;
using plan::TensorId;

/// Calls without deliveries may be ahead of the record log by this many steps.
constexpr int64_t kRecords = 64;

/// Steps that deliver and save nothing are logged in groups of this size, or after this time.
/// Waking a thread for each step would make small networks a tenth slower.
constexpr int64_t kLoggedTogether = kRecords / 2;
constexpr auto kLoggedAfter = std::chrono::milliseconds(50);

class Executor {
 public:
  explicit Executor(const Execution& run)
      : run_(run),
        job_(*run.prepared.whole),
        program_(*run.prepared.program),
        inputs_(*run.prepared.input_pipeline),
        asynchronous_(pipeline_of(job_) > 1),
        in_step_(!asynchronous_ && inputs_.is_seen_reading()),
        ahead_(run.prepared.launches_ahead && !run.ranks && !inputs_.is_seen_reading()),
        input_slots_(input_slots(job_)),
        filled_(inputs_.varies() ? run.first : run.end),
        computed_(run.first),
        consumed_(run.first),
        reached_(run.first),
        finished_(run.first),
        always_wanted_(read_in_each_call(job_).size()),
        deliverables_(list_deliverables(job_, run.prepared.deliveries)),
        wanted_(deliverables_.size()),
        delivered_(run.prepared.output_slots, run.first) {
    for (const Delivery& delivery : run.prepared.deliveries)
      wanted_by_.push_back(static_cast<size_t>(std::ranges::find(deliverables_, delivery.tensor) -
                                               deliverables_.begin()));
    for (size_t slot = 0; slot < input_slots_; ++slot) inputs_.prime(program_, slot);
  }

  RunResult execute() {
    const int64_t begin = Profile::now();
    run_stages();
    if (run_.profile) run_.profile->add_run(begin, Profile::now());
    if (compute_error_) std::rethrow_exception(compute_error_);

    RunResult result;
    result.error = deliver_error_ ? deliver_error_ : input_error_;
    result.delivered = !deliver_error_;
    result.since = run_.since;
    result.steps = computed_.completed();
    if (result.steps > run_.first) {
      result.last_loss = record_of(result.steps - 1).loss;
      result.without_labels = record_of(result.steps - 1).without_labels;
      result.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
      result.since = begin_;
    }
    result.first_call_done = first_call_done_;
    result.failure = check_failure_.empty() ? loss_failure_ : check_failure_;
    if (result.failure.empty()) result.stop = stop_;
    return result;
  }

 private:
  /// Runs the stages. A stage that ends for any reason closes its counters, so that the other
  /// stages end, too.
  void run_stages() {
    const auto stage = [](auto body, std::exception_ptr& error,
                          std::initializer_list<StepCounter*> closed) {
      return [body, &error, counters = std::vector<StepCounter*>(closed)] {
        try {
          body();
        } catch (...) {
          error = std::current_exception();
        }
        for (StepCounter* counter : counters) counter->close();
      };
    };
    const std::function<void()> filling =
        stage([this] { fill_inputs(); }, input_error_, {&filled_});
    const std::function<void()> computing =
        stage([this] { compute(); }, compute_error_, {&computed_, &consumed_});
    const std::function<void()> delivering =
        stage([this] { deliver(); }, deliver_error_, {&reached_, &finished_, &consumed_});
    if (run_.end - run_.first > 1) return run_.pool.run({computing, delivering, filling});
    // A single step has nothing to overlap with, and waking threads may cost more than the step.
    filling();
    run_.pool.run({computing});
    delivering();
  }

  void fill_inputs() {
    if (!inputs_.varies()) return;
    SpinPolicy spin_policy;
    const auto slots = static_cast<int64_t>(input_slots_);
    const std::function<bool()> give_up = [this] { return is_stopped() || consumed_.closed(); };
    for (int64_t step = run_.first; step < run_.end; ++step) {
      // The slot is free once the last call that used it is complete. The feed sleeps until half of
      // the slots are free, so that the other half keep the compute thread busy.
      const int64_t free_after = in_step_ ? step : step + 1 - slots;
      const int64_t more = in_step_ ? 0 : slots / 2 - 1;
      if (free_after > run_.first && !consumed_.wait(free_after, spin_policy, more)) return;
      const Timed timed(run_.profile, Activity::kLoad, step);
      if (!inputs_.fill(program_, step, input_slot(step), give_up)) return;
      filled_.complete(step + 1);
    }
  }

  void compute() {
    int64_t step = run_.first, settled = run_.first;
    const auto settle_until = [&](int64_t steps) {
      while (settled < steps) settle(settled++);
      return loss_failure_.empty();
    };
    for (; step < run_.end && await_turn(step); ++step) {
      launch(step);
      if (!settle_until(step)) return;
      const bool looked_at = leaves_something(step) && (!asynchronous_ || record_of(step).saves);
      if ((looked_at || !ahead_) && !settle_until(step + 1)) return;
    }
    settle_until(step);
  }

  void deliver() {
    SpinPolicy spin_policy;
    for (int64_t step = run_.first; computed_.wait(step + 1, spin_policy, kLoggedTogether);
         ++step) {
      StepRecord record = record_of(step);
      std::optional<std::string> failure;
      if (record.delivers) {
        const Timed timed(run_.profile, Activity::kDeliver, step);
        failure = run_.deliverer.deliver(program_, step, output_slot(step));
      }
      if (record.saves) record.outputs = run_.deliverer.outputs();
      if (failure) {
        check_failure_ = *failure;
        record.saves = false;
      } else {
        reached_.complete(step + 1);
        if (in_step_) consumed_.complete(step + 1);
      }
      if (run_.on_step) {
        const Timed timed(run_.profile, Activity::kLog, step);
        run_.on_step(record);
      }
      if (failure) return;
      finished_.complete(step + 1);
    }
  }

  bool is_stopped() const { return run_.stop && run_.stop() != Stop::kNone; }

  bool await_inputs(int64_t step) {
    const Timed timed(run_.profile, Activity::kAwaitInputs, step);
    return filled_.wait(step + 1, for_inputs_);
  }

  bool await_sinks(int64_t step) {
    const Timed timed(run_.profile, Activity::kAwaitSinks, step);
    return reached_.wait(delivered_[output_slot(step)], for_sinks_) &&
           finished_.wait(std::max(run_.first, step + 1 - kRecords), for_log_);
  }

  bool await_turn(int64_t step) {
    if (run_.ranks) run_.ranks->enter(RankActivity::kDelivering, step);
    const bool ready = await_inputs(step) && await_sinks(step);
    // Checked after earlier deliveries have reached their sinks, because one of them may request
    // the stop.
    if (run_.stop) stop_ = run_.stop();
    saves_ = run_.saves && run_.saves(step);
    return run_.ranks ? agree_to_launch(ready) : ready && stop_ == Stop::kNone;
  }

  bool agree_to_launch(bool ready) {
    NextCall next{ready && stop_ == Stop::kNone, saves_, ready ? stop_ : Stop::kNone};
    with_all_ranks([&] { next = agree_on_call(run_.ranks->collectives(), next); });
    saves_ = next.saves;
    stop_ = next.stop;
    return next.launches;
  }

  /// Calls f. If it throws, tells the other ranks, which would otherwise wait for this rank
  /// forever.
  template <typename F>
  void with_all_ranks(F f) {
    try {
      f();
    } catch (const std::exception& error) {
      if (run_.ranks) run_.ranks->fail(error);
      throw;
    }
  }

  void launch(int64_t step) {
    choose_wanted(step);
    StepRecord& record = record_of(step);
    record = {};
    record.step = step;
    if (job_.optimizer)
      record.learning_rate =
          plan::learning_rate(job_.optimizer->learning_rate, step, run_.learning_rate);
    if (step == run_.first) {
      woken_ = Clock::now();
      begin_ = run_.since.value_or(woken_);
    }
    const Timed timed(run_.profile, Activity::kLaunch, step);
    const Call call{.step = step,
                    .learning_rate = record.learning_rate,
                    .wanted = wanted_,
                    .fingerprints = takes_fingerprints(step)};
    if (run_.ranks) run_.ranks->enter(RankActivity::kComputing, step);
    launched_ = Clock::now();
    with_all_ranks([&] { program_.launch(call, input_slot(step), output_slot(step)); });
  }

  void choose_wanted(int64_t step) {
    std::ranges::fill(wanted_, 0);
    std::fill_n(wanted_.begin(), always_wanted_, 1);
    for (size_t i = 0; i < wanted_by_.size(); ++i)
      if (run_.prepared.deliveries[i].fires(step)) wanted_[wanted_by_[i]] = 1;
  }

  bool leaves_something(int64_t step) {
    StepRecord& record = record_of(step);
    record.saves = saves_;
    // Sums are saved before values of later steps are added to them.
    record.delivers = record.saves || delivers(step);
    return record.delivers;
  }

  /// Returns true if the delivery thread delivers anything of the step. In a synchronous job this
  /// is called when all earlier calls are settled, because what a sink does with a value depends on
  /// them.
  bool delivers(int64_t step) const {
    if (!asynchronous_) return !run_.deliverer.absorbs(step);
    return run_.deliverer.reports_epoch_at(step) ||
           std::ranges::any_of(run_.prepared.deliveries,
                               [&](const Delivery& d) { return d.fires(step); });
  }

  /// Waits for a call, inspects it and hands it to the delivery thread.
  void settle(int64_t step) {
    const size_t slot = output_slot(step);
    StepRecord& record = record_of(step);
    await_device(step);
    const PlainArithmetic plain;
    if (run_.profile) run_.profile->add_steps(step, program_.step_times(slot));
    const Clock::time_point now = Clock::now();
    if (!first_call_done_) first_call_done_ = now;
    record.seconds = std::chrono::duration<double>(now - begin_).count();
    if (takes_fingerprints(step)) run_.keep_fingerprints(step, program_.fingerprints(slot));
    inspect(record, slot);
    if (record.delivers && asynchronous_)
      delivered_[slot] = step + 1;
    else if (record.delivers)
      std::ranges::fill(delivered_, step + 1);
    else if (!asynchronous_)
      reduce(step);
    record.saves = record.saves && loss_failure_.empty();
    if (record.saves) capture(step);
    hand_over(step, record.delivers, now);
  }

  void await_device(int64_t step) {
    Profile* const profile =
        run_.prepared.launches_ahead ? run_.profile : nullptr;  // otherwise the device is the host
    const Timed timed(profile, Activity::kAwaitDevice, step);
    with_all_ranks([&] { program_.wait(output_slot(step)); });
    if (run_.ranks) run_.ranks->step_took(Clock::now() - launched_);
  }

  /// Adds values to sums on the compute thread. There are few, so this takes less time than waking
  /// a thread.
  void reduce(int64_t step) {
    const Timed timed(run_.profile, Activity::kReduce, step);
    run_.deliverer.deliver(program_, step, output_slot(step));
  }

  /// Checks a call for errors before anything of it is delivered or saved.
  void inspect(StepRecord& record, size_t slot) {
    if (const std::optional<Fault> fault = program_.fault(slot))
      throw fault_error(*fault, record.step, job_, inputs_);
    if (!job_.optimizer) return;
    read_losses(program_, slot, job_, record);
    if (std::isfinite(*record.loss) || !job_.run.fail_on_nonfinite) return;
    loss_failure_ = fmt::format("{}: step {}: {}", job_.optimizer->where, record.step,
                                text_of_loss(*job_.optimizer, record));
  }

  void capture(int64_t step) {
    if (run_.ranks) run_.ranks->enter(RankActivity::kSaving, step);
    // The copy is being written until its step is logged. If logging fails, the run ends and no
    // thread reads the copy.
    if (saved_ > run_.first) finished_.wait(saved_, for_log_);
    const Timed timed(run_.profile, Activity::kCapture, step);
    with_all_ranks([&] { run_.capture(); });
    saved_ = step + 1;
  }

  void hand_over(int64_t step, bool awaited, Clock::time_point now) {
    const bool wake = awaited || in_step_ || now - woken_ >= kLoggedAfter;
    if (wake) woken_ = now;
    if (!in_step_) consumed_.complete(step + 1, false);
    computed_.complete(step + 1, wake);
  }

  bool takes_fingerprints(int64_t step) const {
    return run_.fingerprint_every > 0 && step % run_.fingerprint_every == 0;
  }
  StepRecord& record_of(int64_t step) { return records_[static_cast<size_t>(step % kRecords)]; }
  size_t input_slot(int64_t step) const { return static_cast<size_t>(step) % input_slots_; }
  size_t output_slot(int64_t step) const {
    return static_cast<size_t>(step) % run_.prepared.output_slots;
  }

  const Execution& run_;
  const plan::Job& job_;  // describes the whole batch
  Program& program_;
  InputPipeline& inputs_;
  const bool asynchronous_;  // whether the job is asynchronous
  const bool in_step_;       // inputs are read after the previous step has been delivered
  /// A call is launched before the previous one is settled. This is false if the writer of an input
  /// may wait for the previous call's results, and on ranks, which agree on each call.
  const bool ahead_;
  const size_t input_slots_;
  StepCounter filled_, computed_, consumed_, reached_, finished_;

  // Used by the compute thread only.
  SpinPolicy for_inputs_, for_sinks_, for_log_;
  const size_t always_wanted_;  // every call requests this many deliverables, the first ones
  std::vector<TensorId> deliverables_;
  std::vector<size_t> wanted_by_;  // the index in deliverables_ of each delivery
  std::vector<uint8_t> wanted_;
  std::vector<int64_t> delivered_;  // per output slot: the steps to reach before its next use
  bool saves_ = false;              // the state after the next call is captured
  int64_t saved_ = 0;               // the number of steps of the last captured state
  Clock::time_point begin_, woken_, launched_;
  Stop stop_ = Stop::kNone;
  std::string loss_failure_;

  std::array<StepRecord, kRecords> records_;
  std::string check_failure_;  // set by the delivery thread
  std::optional<Clock::time_point> first_call_done_;
  std::exception_ptr input_error_, compute_error_, deliver_error_;
};

}  // namespace

RunResult execute(const Execution& execution) { return Executor(execution).execute(); }

}  // namespace flow::exec
