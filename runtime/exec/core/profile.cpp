// Collects the sums and marks of a run's profile, and writes the profile in the trace event format.
#include "runtime/exec/core/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::exec {
namespace {

/// The most marks of a job, which make some 3 MB of text.
constexpr size_t kMarks = 20000;
constexpr size_t kTracedCalls = 200;

int64_t traced_calls(size_t timed_steps) {
  const size_t marks_a_call = timed_steps + kActivityCount;
  return static_cast<int64_t>(std::clamp<size_t>(kMarks / marks_a_call, 1, kTracedCalls));
}

ProfileRow row_of(const Durations& durations) {
  return {"", "", "", durations.count(), durations.seconds(), durations.median()};
}

using plan::json_number;
using plan::json_string;

std::string label(const char* what, size_t job, size_t track, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                     job, track, json_string(name));
}

std::string row_json(const ProfileRow& row) {
  const std::string step =
      row.op.empty()
          ? ""
          : fmt::format(R"(,"op":{},"kernel":{})", json_string(row.op), json_string(row.kernel));
  return fmt::format(R"({{"name":{}{},"calls":{},"seconds":{},"median":{}}})",
                     json_string(row.name), step, row.calls, json_number(row.seconds),
                     json_number(row.median));
}

std::string rows_json(const std::vector<ProfileRow>& rows) {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const ProfileRow& row : rows) texts.push_back(row_json(row));
  return "[\n" + join(texts, ",\n") + "]";
}

std::string report_json(const ProfileReport& report) {
  return fmt::format(
      R"({{"job":{},"calls":{},"seconds":{},"roof":{{"flops":{},"bytes":{}}},"compute":{},"beside":{},"steps":{}}})",
      json_string(report.job), report.calls, json_number(report.seconds),
      json_number(report.roof.flops), json_number(report.roof.bytes), rows_json(report.compute),
      rows_json(report.beside), rows_json(report.steps));
}

}  // namespace

// The width of a bucket is one sixteenth of the largest power of two that is not above its values.
void Durations::add(int64_t nanoseconds) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0));
  ++count_;
  sum_ += static_cast<int64_t>(value);
  const int octave = std::max(0, static_cast<int>(std::bit_width(value)) - 1 - kMantissaBits);
  const size_t bucket = (static_cast<size_t>(octave) << kMantissaBits) + (value >> octave);
  ++buckets_[std::min(bucket, buckets_.size() - 1)];
}

double Durations::median() const {
  uint64_t left = static_cast<uint64_t>(count_ + 1) / 2;
  for (size_t bucket = 0; bucket < buckets_.size() && left > 0; ++bucket) {
    if (buckets_[bucket] < left) {
      left -= buckets_[bucket];
      continue;
    }
    constexpr size_t kMantissas = size_t{1} << kMantissaBits;
    const size_t octave = bucket < 2 * kMantissas ? 0 : bucket / kMantissas - 1;
    const size_t lowest = (bucket - octave * kMantissas) << octave;
    return (static_cast<double>(lowest) + static_cast<double>((size_t{1} << octave) - 1) / 2) *
           1e-9;
  }
  return 0;
}

const std::array<Profile::ActivityInfo, kActivityCount> Profile::kActivities = {{
    {"launch", kCompute},
    {"wait for the device", kCompute},
    {"wait for inputs", kCompute},
    {"wait for sinks", kCompute},
    {"reduce printed tensors", kCompute},
    {"copy saved variables", kCompute},
    {"load inputs", kFeed},
    {"deliver", kDeliverer},
    {"metrics, checkpoints", kDeliverer},
}};

Profile::Profile(std::string job, const Program& program, int64_t first)
    : job_(std::move(job)),
      timed_steps_(program.timed_steps()),
      traced_until_(first + traced_calls(timed_steps_.size())),
      steps_(timed_steps_.size()) {
  const auto calls = static_cast<size_t>(traced_until_ - first);
  for (size_t track = 0; track < kTracks; ++track)
    marks_[track].reserve(calls * (track == kSteps ? timed_steps_.size() : kActivityCount));
}

int64_t Profile::now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void Profile::mark(Track track, const Mark& mark) {
  std::vector<Mark>& marks = marks_[track];
  if (mark.step < traced_until_ && marks.size() < marks.capacity()) marks.push_back(mark);
}

void Profile::add(Activity activity, int64_t step, int64_t begin, int64_t end) {
  const auto which = static_cast<size_t>(activity);
  activities_[which].add(end - begin);
  mark(kActivities[which].track, {which, step, begin, end});
}

void Profile::add_steps(int64_t step, std::span<const int64_t> times) {
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    if (times[i] == times[i + 1]) continue;  // the step did not run
    steps_[i].add(times[i + 1] - times[i]);
    mark(kSteps, {i, step, times[i], times[i + 1]});
  }
}

std::string Profile::name_of(Track track, const Mark& mark) const {
  return track == kSteps ? timed_steps_[mark.what].name : kActivities[mark.what].name;
}

ProfileReport Profile::report() const {
  ProfileReport report;
  report.job = job_;
  report.calls = activities_[static_cast<size_t>(Activity::kLaunch)].count();
  report.seconds = seconds_;
  for (size_t i = 0; i < kActivityCount; ++i) {
    if (activities_[i].count() == 0) continue;
    ProfileRow row = row_of(activities_[i]);
    row.name = kActivities[i].name;
    (kActivities[i].track == kCompute ? report.compute : report.beside).push_back(std::move(row));
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].count() == 0) continue;
    ProfileRow row = row_of(steps_[i]);
    row.name = timed_steps_[i].name;
    row.op = timed_steps_[i].op;
    row.kernel = timed_steps_[i].kernel;
    row.of_plan = timed_steps_[i].of_plan;
    report.steps.push_back(std::move(row));
  }
  std::ranges::stable_sort(report.steps, std::greater<>{}, &ProfileRow::seconds);
  return report;
}

std::string trace_json(std::span<const Profile* const> profiles,
                       std::span<const ProfileReport> reports) {
  constexpr std::array<const char*, Profile::kTracks> kTrackNames = {"compute", "steps of a call",
                                                                     "load", "deliver"};
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const Profile* profile : profiles)
    for (const auto& marks : profile->marks_)
      for (const Profile::Mark& mark : marks) origin = std::min(origin, mark.begin);
  const auto microseconds = [](int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  };
  std::vector<std::string> events, texts;
  for (size_t job = 0; job < profiles.size(); ++job) {
    const Profile& profile = *profiles[job];
    events.push_back(label("process_name", job, 0, profile.job_));
    for (size_t track = 0; track < Profile::kTracks; ++track) {
      events.push_back(label("thread_name", job, track, kTrackNames[track]));
      for (const Profile::Mark& mark : profile.marks_[track])
        events.push_back(fmt::format(
            R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"step":{}}}}})",
            json_string(profile.name_of(static_cast<Profile::Track>(track), mark)), job, track,
            microseconds(mark.begin - origin), microseconds(mark.end - mark.begin), mark.step));
    }
  }
  for (const ProfileReport& report : reports) texts.push_back(report_json(report));
  return "{\"traceEvents\":[\n" + join(events, ",\n") + "],\n\"jobs\":[\n" + join(texts, ",\n") +
         "]}\n";
}

}  // namespace flow::exec
