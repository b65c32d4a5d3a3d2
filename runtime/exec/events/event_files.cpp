// Finds existing event files, and the part of them that a resumed run keeps.
#include "runtime/exec/events/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/base/error.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {
namespace event {
namespace {

enum Field { kWallTime = 1, kStep = 2, kFileVersion = 3, kSessionLog = 7 };

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

io::Protobuf begun(int64_t step) {
  io::Protobuf event;
  event.float64(kWallTime, now());
  event.integer(kStep, step);
  return event;
}

std::string session_log(int64_t step, int status, std::string_view message) {
  constexpr int kStatus = 1, kMessage = 3;
  io::Protobuf log;
  log.integer(kStatus, status);
  log.text(kMessage, message);
  io::Protobuf event = begun(step);
  event.message(kSessionLog, log);
  return event.bytes();
}

}  // namespace

std::string version() {
  io::Protobuf event = begun(0);
  event.text(kFileVersion, "brain.Event:2");
  return event.bytes();
}

std::string start(std::string_view identity) { return session_log(0, 1, identity); }

std::string checkpoint(int64_t steps) { return session_log(steps, 3, ""); }

std::string holding(int field, int64_t step, std::string_view message) {
  io::Protobuf event = begun(step);
  event.text(field, message);
  return event.bytes();
}

}  // namespace event

namespace {

constexpr std::string_view kFilePrefix = "events.out.tfevents.", kFileSuffix = ".flow";

[[noreturn]] void refuse(const fs::path& directory, const std::string& what,
                         const std::string& hint) {
  throw RequestError(fmt::format("--tensorboard {}: {}", directory.string(), what), hint);
}

bool is_event_file(std::string_view name) {
  return name.starts_with(kFilePrefix) && name.ends_with(kFileSuffix);
}

bool is_temporary_event_file(std::string_view name) {
  return name.starts_with('.') && name.substr(1).starts_with(kFilePrefix) &&
         name.ends_with(kTemporarySuffix);
}

/// Lists the event files of flow, the newest last. TensorBoard also reads them in the order of
/// their names.
EventFiles list_files(const fs::path& directory) {
  EventFiles files;
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return files;
  if (!error && !fs::is_directory(directory, error))
    refuse(directory, "is a file, not a directory", "name another directory");
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (!entry.is_regular_file(ignored)) continue;
    if (is_event_file(name)) files.earlier.push_back(entry.path());
    if (is_temporary_event_file(name)) files.temporaries.push_back(entry.path());
  }
  if (error) throw cannot("read", directory, error.value());
  std::ranges::sort(files.earlier);
  return files;
}

/// Returns a path such as "events.out.tfevents.1764184417.HOST.flow", with a later time than that
/// of the previous file.
fs::path next_path(const fs::path& directory, const std::vector<fs::path>& earlier) {
  auto second = std::chrono::duration_cast<std::chrono::seconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
  if (!earlier.empty()) {
    const std::string name = earlier.back().filename().string().substr(kFilePrefix.size());
    const auto before = whole_number(name.substr(0, name.find('.')));
    constexpr int64_t kTenDigits = 9'999'999'999;
    if (before && *before < kTenDigits) second = std::max(second, *before + 1);
  }
  std::string host = host_name();
  std::ranges::replace(host, '/', '_');
  return directory / fmt::format("{}{:010}.{}{}", kFilePrefix, second, host, kFileSuffix);
}

std::string_view without_time(std::string_view event) {
  return event.substr(std::min(event.size(), event::kTimeBytes));
}

/// Returns the bytes of a file up to the checkpoint that the run resumes from. Throws RequestError
/// if the file belongs to another run.
std::string kept_bytes(const RunRequest& request, int64_t first, const fs::path& path) {
  const std::string start = event::start(plan::resume_hash(request.plan, request.job));
  const std::string checkpoint = event::checkpoint(first);
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  size_t number = 0, end_of_kept = 0;
  bool ours = false;
  io::visit_records(bytes, [&](std::string_view record, size_t end) {
    if (number++ == 1) ours = without_time(record) == without_time(start);
    if (without_time(record) == without_time(checkpoint)) end_of_kept = end;
  });
  if (!ours)
    refuse(*request.tensorboard, "has the events of another job",
           "name the directory that the run began with, or another one");
  if (first == 0) return {};
  if (end_of_kept == 0)
    refuse(*request.tensorboard,
           fmt::format("has events of this job, but none of the checkpoint at step {}", first),
           "name the directory that the run began with, or another one");
  return {reinterpret_cast<const char*>(bytes.data()), end_of_kept};
}

}  // namespace

EventFiles find_event_files(const RunRequest& request, int64_t first) {
  const fs::path directory = *request.tensorboard;
  EventFiles files = list_files(directory);
  files.path = next_path(directory, files.earlier);
  if (files.earlier.empty() || request.force) return files;
  if (!request.resume && !request.restarts)
    refuse(directory, "has the events of an earlier run",
           "name another directory, or use --force to remove them");
  files.kept = kept_bytes(request, first, files.earlier.back());
  return files;
}

}  // namespace flow::exec
