// Writes and reads golden.json, and compares a folder with its record.
#include "runtime/compare/golden.h"

#include <fmt/format.h>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/compare/run_plan.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/json/structs.h"

namespace flow::plan {

template <>
inline constexpr bool kSpread<compare::GoldenRecord> = true;
template <>
inline constexpr bool kSpread<compare::GoldenRecord::Run> = true;

}  // namespace flow::plan

namespace flow::compare {

using plan::Is;

void fields(auto& text, Is<GoldenRecord::Run> auto& run) {
  text("command", run.command);
  text("device", run.device);
  text("instruction_set", run.instruction_set);
  text("libraries", run.libraries);
  text("overrides", run.overrides);
  text("plan_hash", run.plan_hash);
  text("version", run.version);
}

void fields(auto& text, Is<GoldenRecord> auto& record) {
  text("arrays", record.arrays);
  text("date", record.date);
  text("flow", record.flow);
  text("reason", record.reason);
  text.given("run", record.run);
  text("version", record.version);
}

namespace {

constexpr const char* kRenew = "restore it, or write a new one with `flowdiff update`";

}  // namespace

std::string to_json(const GoldenRecord& record) {
  return plan::JsonWriter(plan::JsonWriter::Remarks::kKept).write(record);
}

GoldenRecord golden_from_json(const std::string& text, const std::string& path) {
  try {
    const Json json = plan::parse_json(text, path);
    GoldenRecord record;
    plan::JsonReader(json, path).read(record);
    if (record.version != GoldenRecord().version)
      throw RequestError(fmt::format("{}: unsupported version {}; expected {}", path,
                                     record.version, GoldenRecord().version));
    return record;
  } catch (const RequestError& error) {
    throw error.hint().empty() ? RequestError(error.what(), kRenew) : error;
  }
}

std::optional<GoldenRecord> read_golden_record(const fs::path& folder) {
  const auto text = read_if_there(folder, kGoldenRecord, kLargestRecord);
  if (!text) return {};
  return golden_from_json(*text, (folder / kGoldenRecord).string());
}

GoldenRecord::Run read_run(const fs::path& directory) {
  const fs::path path = directory / exec::kRunRecord;
  const auto text = read_if_there(directory, exec::kRunRecord, kLargestRecord);
  if (!text)
    throw RequestError(fmt::format("{} has no {}: the run is active or was killed",
                                   directory.string(), exec::kRunRecord),
                       "use a complete run");
  const Json json = plan::parse_json(*text, path.string());
  const auto status = json.find("exit_status");
  if (!json.is_object() || status == json.end() || !status->is_number_integer())
    throw RequestError(fmt::format("{} is not the record of a run", path.string()),
                       "use a complete run");
  if (*status != 0)
    throw RequestError(
        fmt::format("the run in {} failed with exit status {}", directory.string(), status->dump()),
        "use a run that succeeded");
  const RunFacts facts = facts_of(json);
  GoldenRecord::Run run{
      .command = command_line(std::vector<std::string>{"flowrun", facts.job, facts.source}),
      .overrides = facts.overrides,
      .plan_hash = facts.plan_hash,
      .device = facts.device,
      .instruction_set = facts.instruction_set,
      .version = facts.version,
      .libraries = facts.libraries};
  for (const std::string& one : run.overrides) run.command += ' ' + one;
  return run;
}

const std::string& FileDigests::of(const fs::path& file) {
  const auto known = known_.find(file);
  return known != known_.end() ? known->second : known_[file] = digest_of_file(file);
}

HandChanges find_hand_changes(const Side& golden, const GoldenRecord& record) {
  HandChanges found;
  FileDigests digests;
  for (const auto& [name, path] : golden.arrays) {
    const auto known = record.arrays.find(name);
    if (known == record.arrays.end()) {
      found.added.push_back(name);
      continue;
    }
    try {
      if (digests.of(file_of(path)) != known->second) found.changed.push_back(name);
    } catch (const RunError&) {  // the verdict of that file reports it
    }
  }
  for (const auto& [name, digest] : record.arrays)
    if (!golden.has(name)) found.removed.push_back(name);
  return found;
}

}  // namespace flow::compare
