// A profile as the trace event format has it, one event a line.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/exec/core/profile.h"
#include "runtime/plan/json/json_text.h"

namespace flow::exec {

namespace {

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
