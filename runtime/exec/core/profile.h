// The profile of a run's time: the sums over all calls, and the first calls in full. Each thread
// writes to separate storage, and all storage is allocated in advance.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// The peak rates of a device, each per second; 0 if not measured.
struct Roof {
  double flops = 0;  // operations of a large matrix product
  double bytes = 0;  // bytes read and written by a sum of large arrays
};

/// Measures the fastest of several runs on `threads` threads (as in PrepareOptions). Products have
/// the operand dtype of the job's precision. The call takes a fraction of a second and needs some
/// memory temporarily; it returns no roof if there is not enough memory.
Roof measure_roof(Backend& backend, const plan::Job& job, int threads);

/// The number of occurrences of an event, and how long they took.
class Durations {
 public:
  void add(int64_t nanoseconds);
  int64_t count() const { return count_; }
  double seconds() const { return static_cast<double>(sum_) * 1e-9; }
  /// The median in seconds, with an error of up to 3 %.
  double median() const;

 private:
  static constexpr int kMantissaBits = 4, kOctaves = 42;  // the range is up to an hour
  int64_t count_ = 0, sum_ = 0;
  std::array<uint32_t, (kOctaves - kMantissaBits + 2) << kMantissaBits> buckets_{};
};

/// The activities of a run's threads, in the order of `kActivities` in profile.cpp.
enum class Activity {
  kLaunch,       // compute thread: a whole call, if the device is the host
  kAwaitDevice,  // compute thread
  kAwaitInputs,  // compute thread
  kAwaitSinks,   // compute thread
  kReduce,       // compute thread: small sums for printed values
  kCapture,      // compute thread: copies variables that are to be saved
  kLoad,         // feed thread
  kDeliver,      // delivery thread
  kLog,          // delivery thread: metrics, checkpoints, progress
};
constexpr size_t kActivityCount = 9;

/// A row of the profile's table.
struct ProfileRow {
  std::string name, op, kernel;  // `op` and `kernel` are those of a step
  int64_t calls = 0;
  double seconds = 0, median = 0;  // the total, and the median of one call
  bool of_plan = false;            // false for the work before or after the steps
};

struct ProfileReport {
  std::string job;
  int64_t calls = 0;
  double seconds = 0;  // the sum over all calls
  std::vector<ProfileRow> compute, beside,
      steps;  // rows of the compute thread, of the other threads, and of the steps of a call
  Roof roof;
};

class Profile {
 public:
  /// `first` is the number of the first step.
  Profile(std::string job, const Program& program, int64_t first);

  /// Returns the time of the steady clock in nanoseconds.
  static int64_t now();
  void add(Activity activity, int64_t step, int64_t begin, int64_t end);
  /// Adds the times of a call's steps, in the format of Program::step_times.
  void add_steps(int64_t step, std::span<const int64_t> times);
  /// Adds the time of a part of the run, from its beginning to its end.
  void add_run(int64_t begin, int64_t end) { seconds_ += static_cast<double>(end - begin) * 1e-9; }

  ProfileReport report() const;

 private:
  friend std::string trace_json(std::span<const Profile* const> profiles,
                                std::span<const ProfileReport> reports);

  struct Mark {
    size_t what;  // an activity or a step
    int64_t step, begin, end;
  };
  /// A track of the trace: one for each thread, and one for the steps of a call.
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
  const int64_t traced_until_;  // the first step that is not traced
  double seconds_ = 0;
  std::array<Durations, kActivityCount> activities_;
  std::vector<Durations> steps_;
  std::array<std::vector<Mark>, kTracks> marks_;
};

/// Measures the time from construction to destruction. Does nothing if `profile` is null.
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

/// Returns a trace that chrome://tracing and ui.perfetto.dev can open: it contains the first calls
/// of each job, and under `jobs` the reports with the sums over all calls.
std::string trace_json(std::span<const Profile* const> profiles,
                       std::span<const ProfileReport> reports);

}  // namespace flow::exec
