// Checks for `--resume`. Messages contain values instead of hashes.
#include "runtime/exec/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/data/files/digest.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/npy.h"
#include "runtime/plan/difference.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {
namespace {

constexpr const char* kOtherData =
    "to train on other data, start a new run with --load and another -o DIR";

std::string cannot_resume(const Checkpoint& checkpoint) {
  return fmt::format("cannot resume {}", checkpoint.path().string());
}

std::optional<plan::Plan> plan_of(const fs::path& directory) try {
  const fs::path path = directory / kPlanFile;
  return plan::from_json(read_text(path), path.string());
} catch (const RunError&) {
  return {};
}

/// Returns the overrides in the run's run.json. A run that was killed does not have this file.
std::optional<std::vector<std::string>> overrides_of(const fs::path& directory) try {
  const Json record = Json::parse(read_text(directory / kRunRecord));
  return record.at("overrides").get<std::vector<std::string>>();
} catch (const std::exception&) {
  return {};
}

constexpr std::string_view kSet = "--set ";

/// Returns true if a `--set` option changes only what a resumed run may change: the job's hooks,
/// and its run section except the order of the rows and `also` (see resumed_part).
bool may_change(std::string_view override, const std::string& job) {
  const std::string place = fmt::format("jobs.{}.", job);
  override.remove_prefix(kSet.size());
  if (override.starts_with('+') || override.starts_with('~')) override.remove_prefix(1);
  if (!override.starts_with(place)) return false;
  const std::string_view key = override.substr(place.size());
  const auto starts = [key](std::string_view fixed) { return key.starts_with(fixed); };
  constexpr std::array<std::string_view, 4> kFixed = {"run.shuffle", "run.sample", "run.epoch_rows",
                                                      "run.also"};
  return starts("hooks") || (starts("run.") && std::ranges::none_of(kFixed, starts));
}

/// Returns the `--set` options of the first list that are not in the second list and that
/// `--resume` does not allow.
std::string overrides_without(const std::vector<std::string>& some,
                              const std::vector<std::string>& others, const std::string& job) {
  std::vector<std::string> left;
  for (const std::string& one : some)
    if (one.starts_with(kSet) && !may_change(one, job) &&
        std::ranges::find(others, one) == others.end())
      left.push_back(fmt::format("`{}`", one));
  return left.empty() ? "none" : join(left, " ");
}

/// Returns the data files that the checkpoint lists. Omits digests in the older format, which are
/// shorter and cover only parts of a file.
DataFiles data_before(const Checkpoint& checkpoint) {
  constexpr size_t kDigits = 32;
  DataFiles data;
  const std::optional<plan::FilesRecord> files = checkpoint.files();
  if (!checkpoint.record().data) return data;
  for (const auto& [name, digest] : *checkpoint.record().data) {
    if (digest.size() != kDigits) continue;
    data[name].digest = digest;
    if (files && files->data.contains(name)) data[name].stamp = files->data.at(name);
    if (files && files->files && files->files->contains(name))
      data[name].files = files->files->at(name);
  }
  return data;
}

/// Returns the bytes that a checkpoint's record covers: in an .npy file, the data that its header
/// counts.
std::span<const std::byte> recorded_part(const MappedFile& file, const fs::path& path) {
  if (path.extension() != ".npy") return file.bytes();
  const io::NpyHeader header = io::parse_npy_header(file.bytes(), path.string());
  const std::span<const std::byte> data = file.bytes().subspan(header.data_offset);
  return data.first(std::min(data.size(), header.data_bytes()));
}

/// Describes the damage of a file. Returns nothing if the file begins with the bytes of the record.
std::optional<std::string> damage_of(const fs::path& path, const plan::OutputRecord& expected) {
  // The file is rewritten, regardless of what a power failure left in it.
  if (expected.bytes == 0) return {};
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return fmt::format("is missing; expected {} bytes", expected.bytes);
  const MappedFile file(path);
  std::optional<std::string> damage;
  file.recovering([&] {
    const std::span<const std::byte> found = recorded_part(file, path);
    if (found.size() < expected.bytes) {
      damage =
          fmt::format("is truncated: {} bytes of data; expected {}", found.size(), expected.bytes);
      return;
    }
    ContentDigest digest;
    digest.add(found.first(expected.bytes));
    if (digest.text() != expected.digest)
      damage = fmt::format("was modified: the digest of {} bytes is {}; expected {}",
                           expected.bytes, digest.text(), expected.digest);
  });
  return damage;
}

constexpr const char* kStartAnew =
    "start from step 0 with --force, which removes the earlier run; or name another directory with "
    "-o DIR";

[[noreturn]] void refuse(const RunRequest& request, const std::string& why) {
  throw RequestError(fmt::format("cannot resume {}: {}", request.directory.string(), why),
                     kStartAnew);
}

/// Returns true if the run was of this job, and not of another job of its plan. A run that was
/// killed has no record but may have metrics: lines without a job belong to a train job, and lines
/// with their own step belong to jobs that it calls.
bool is_of_this_job(const RunRequest& request) try {
  std::error_code ignored;
  const fs::path record = request.directory / kRunRecord;
  if (fs::exists(record, ignored))
    return Json::parse(read_text(record)).at("job") == request.job.name;
  const fs::path metrics = request.directory / kMetricsFile;
  if (!fs::exists(metrics, ignored)) return true;
  const std::string text = read_text(metrics);
  const Json line = Json::parse(text.substr(0, text.find('\n')), nullptr, false);
  // The line does not show the job.
  if (!line.is_object() || line.contains("job_step")) return true;
  return line.contains("job") ? line["job"] == request.job.name : request.job.train;
} catch (const std::exception&) {
  return false;
}

}  // namespace

std::string differences_from_run(const fs::path& directory, const RunRequest& request) {
  constexpr size_t kMost = 10;
  const std::optional<plan::Plan> before = plan_of(directory);
  if (!before) return {};
  std::vector<std::string> lines = plan::job_changes(*before, request.plan, request.job.name);
  if (const auto overrides = overrides_of(directory)) {
    const std::string in_run = overrides_without(*overrides, request.overrides, request.job.name);
    const std::string now = overrides_without(request.overrides, *overrides, request.job.name);
    if (in_run != now)
      lines.insert(lines.begin(), fmt::format("command line: {} in the run, {} now", in_run, now));
  }
  std::string text;
  for (size_t i = 0; i < std::min(lines.size(), kMost); ++i) text += "\n  " + lines[i];
  if (lines.size() > kMost) text += fmt::format("\n  and {} more", lines.size() - kMost);
  return text;
}

void require_same_job(const Checkpoint& checkpoint, const RunRequest& request) {
  const std::string hash = plan::resume_hash(request.plan, request.job);
  if (checkpoint.record().resume_hash == hash) return;
  const fs::path run = checkpoint.path().parent_path().parent_path();
  const std::string command[] = {"flowrun", request.job.name, (run / kPlanFile).string(),
                                 "-o",      run.string(),     "--resume"};
  throw RequestError(
      fmt::format("{}: job `{}` differs from the run{}", cannot_resume(checkpoint),
                  request.job.name, differences_from_run(run, request)),
      fmt::format("continue the unchanged run with `{}`, or start a new one with --load",
                  command_line(command)));
}

std::map<std::string, std::string> given_inputs(const RunRequest& request) {
  std::map<std::string, std::string> given;
  for (const auto& [name, text] : request.inputs) given[name] = text.starts_with('@') ? "@" : text;
  return given;
}

void require_same_inputs(const Checkpoint& checkpoint, const RunRequest& request) {
  if (!checkpoint.record().inputs) return;  // written by an older version
  const auto& before = *checkpoint.record().inputs;
  const std::map<std::string, std::string> now = given_inputs(request);
  std::string differences;
  const auto compare = [&](const std::string& name) {
    const auto in_run = before.find(name), given = now.find(name);
    const auto shown = [&](const auto& map, const auto& found) {
      return found == map.end() ? std::string("none") : found->second;
    };
    if (const std::string a = shown(before, in_run), b = shown(now, given); a != b)
      differences += fmt::format("\n  --input {}: {} in the run, {} now", name, a, b);
  };
  for (const auto& [name, text] : before) compare(name);
  for (const auto& [name, text] : now)
    if (!before.contains(name)) compare(name);
  if (!differences.empty())
    throw RequestError(cannot_resume(checkpoint) + ": its inputs differ" + differences,
                       "repeat the --input options of the run");
}

namespace {

/// Returns true if the digest is that of a whole large file, which older versions wrote. The digest
/// of a small file is the same in all versions.
bool has_older_digest(const DataFile& now, const std::string& digest) {
  return now.source.paths.size() == 1 && now.bytes > data::kWholeDigest &&
         digest_of_file(now.source.paths.front()) == digest;
}

std::string change_of(const DataFile& before, const DataFile& now) {
  if (std::string change = first_difference(before, now); !change.empty()) return change;
  return fmt::format("{} has digest {}; expected {}", now.source.text(), now.digest, before.digest);
}

}  // namespace

DataFiles require_same_data(const Checkpoint& checkpoint, const RunRequest& request) {
  const DataFiles before = data_before(checkpoint);
  const DataFiles data = hash_data(request, request.verify_data ? DataFiles() : before);
  for (const auto& [name, file] : before) {
    const auto found = data.find(name);
    if (found == data.end())
      throw RequestError(fmt::format("{}: the data of `{}` no longer come from a file",
                                     cannot_resume(checkpoint), name),
                         kOtherData);
    if (found->second.digest != file.digest && !has_older_digest(found->second, file.digest))
      throw RequestError(fmt::format("{}: the data of `{}` changed: {}", cannot_resume(checkpoint),
                                     name, change_of(file, found->second)),
                         kOtherData);
  }
  return data;
}

void require_same_outputs(const Checkpoint& checkpoint, const fs::path& directory,
                          const std::vector<std::string>& continued) {
  const std::optional<plan::FilesRecord> files = checkpoint.files();
  if (!files) return;  // written by an older version
  for (const std::string& name : continued) {
    const auto expected = files->outputs.find(name);
    if (expected == files->outputs.end()) continue;  // the output of a new hook
    const fs::path path = directory / name;
    const std::optional<std::string> damage = damage_of(path, expected->second);
    if (!damage) continue;
    const bool of_hook = name.find("watch/") != name.npos;
    throw RunError(fmt::format("{}: {} {}", cannot_resume(checkpoint), path.string(), *damage),
                   fmt::format("restore the file{}, or start from step 0 with --force",
                               of_hook ? ", resume without the hook that writes it" : ""));
  }
}

Resumable find_resumable(const RunRequest& request) {
  const fs::path& directory = request.directory;
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return Resumable::kNothing;
  if (!fs::is_directory(directory, error))
    throw RequestError(fmt::format("{} is a file, not a directory", directory.string()),
                       "name another directory with -o DIR");
  if (io::CheckpointFolder(directory).newest()) return Resumable::kCheckpoint;
  if (has_leftovers_only(directory)) return Resumable::kNothing;
  const fs::path path = directory / kPlanFile;
  if (!fs::exists(path, error))
    refuse(request, fmt::format("the directory is not empty and has no {}", kPlanFile));
  const plan::Plan plan = [&] {
    try {
      return plan::from_json(read_text(path), path.string());
    } catch (const RunError& unreadable) {
      refuse(request, unreadable.what());
    }
  }();
  const auto job = std::ranges::find(plan.jobs, request.job.name, &plan::Job::name);
  const bool same = job != plan.jobs.end() &&
                    plan::resume_hash(plan, *job) == plan::resume_hash(request.plan, request.job);
  if (!same || !is_of_this_job(request))
    refuse(request, fmt::format("its run differs from job `{}`{}", request.job.name,
                                differences_from_run(directory, request)));
  return Resumable::kUnsaved;
}

}  // namespace flow::exec
