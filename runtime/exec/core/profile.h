// Where the time of a run went: the sums of all calls, and the first of them in full. What a thread
// notes is its own, and everything is allocated before.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// Each second; 0 where nothing was measured.
struct Roof {
  double flops = 0;  // of a large product of matrices
  double bytes = 0;  // read and written by a sum of large arrays
};

/// The fastest of several runs on `threads` (as in PrepareOptions), with the operands that products
/// have under the job's precision. Takes a fraction of a second and some memory, for the time of
/// the call; no roof where that is not there.
Roof measure_roof(Backend& backend, const plan::Job& job, int threads);

/// How often something happened, and how long it took.
class Durations {
 public:
  void add(int64_t nanoseconds);
  int64_t count() const { return count_; }
  double seconds() const { return static_cast<double>(sum_) * 1e-9; }
  /// In seconds, to 3 %.
  double median() const;

 private:
  static constexpr int kMantissaBits = 4, kOctaves = 42;  // up to an hour
  int64_t count_ = 0, sum_ = 0;
  std::array<uint32_t, (kOctaves - kMantissaBits + 2) << kMantissaBits> buckets_{};
};

/// What the threads of a run do. The order is that of `kActivities` in profile.cpp.
enum class Activity {
  kLaunch,       // compute: all of a call, where the device is the host
  kAwaitDevice,  // compute
  kAwaitInputs,  // compute
  kAwaitSinks,   // compute
  kReduce,       // compute: small sums for what is printed
  kCapture,      // compute: copies variables to be saved
  kLoad,         // feed
  kDeliver,      // deliver
  kLog,          // deliver: metrics, checkpoints, progress
};
constexpr size_t kActivityCount = 9;

/// A line of the table.
struct ProfileRow {
  std::string name, op, kernel;  // the latter two: of a step
  int64_t calls = 0;
  double seconds = 0, median = 0;  // in all; of one
  bool of_plan = false;            // a step of the plan, not what comes before or after one
};

struct ProfileReport {
  std::string job;
  int64_t calls = 0;
  double seconds = 0;  // of all calls
  std::vector<ProfileRow> compute, beside,
      steps;  // of the compute thread, of the others; of a call
  Roof roof;
};

class Profile {
 public:
  /// `first`: the step that comes first.
  Profile(std::string job, const Program& program, int64_t first);

  /// The steady clock, in nanoseconds.
  static int64_t now();
  void add(Activity activity, int64_t step, int64_t begin, int64_t end);
  /// As Program::step_times has them.
  void add_steps(int64_t step, std::span<const int64_t> times);
  /// A part of the run, from its begin to its end.
  void add_run(int64_t begin, int64_t end) { seconds_ += static_cast<double>(end - begin) * 1e-9; }

  ProfileReport report() const;

 private:
  friend std::string trace_json(std::span<const Profile* const> profiles,
                                std::span<const ProfileReport> reports);

  struct Mark {
    size_t what;  // an activity, or a step
    int64_t step, begin, end;
  };
  /// Of one thread, and of the steps of a call.
  enum Track : size_t { kCompute, kSteps, kFeed, kDeliverer, kTracks };
  struct ActivityInfo {
    const char* name;
    Track track;
  };
  static const std::array<ActivityInfo, kActivityCount> kActivities;

  void mark(Track track, const Mark& mark);
  std::string name_of(Track track, const Mark& mark) const;

  const std::string job_;
  const std::vector<TimedStep> timed_steps_;
  const int64_t traced_until_;  // the step
  double seconds_ = 0;
  std::array<Durations, kActivityCount> activities_;
  std::vector<Durations> steps_;
  std::array<std::vector<Mark>, kTracks> marks_;
};

/// Takes the time while it lives; nothing where there is no profile.
class Timed {
 public:
  Timed(Profile* profile, Activity activity, int64_t step)
      : profile_(profile), activity_(activity), step_(step), begin_(profile ? Profile::now() : 0) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() {
    if (profile_) profile_->add(activity_, step_, begin_, Profile::now());
  }

 private:
  Profile* const profile_;
  const Activity activity_;
  const int64_t step_, begin_;
};

/// What chrome://tracing and ui.perfetto.dev open: the first calls of each job, and under `jobs`
/// the sums of all, which are the profiles' reports.
std::string trace_json(std::span<const Profile* const> profiles,
                       std::span<const ProfileReport> reports);

}  // namespace flow::exec
