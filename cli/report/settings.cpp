// Compares what run.json says of runs, and their plans.
#include "cli/report/settings.h"

#include <algorithm>
#include <functional>

#include "runtime/base/text.h"
#include "runtime/plan/job_changes.h"

namespace flow::cli::report {
namespace {

constexpr size_t kMost = 12;

/// "--set vars.lr=0.1" as its two words.
std::pair<std::string, std::string> words_of(const std::string& override) {
  const size_t space = override.find(' ');
  return {override.substr(0, space), space == override.npos ? "" : override.substr(space + 1)};
}

/// "vars.lr": "0.1"; "--steps": "50".
std::map<std::string, std::string> settings_of(const RunData& run) {
  std::map<std::string, std::string> settings;
  if (!run.record) return settings;
  for (const std::string& override : run.record->overrides) {
    const auto [flag, value] = words_of(override);
    const size_t equals = value.find('=');
    if (flag == "--set" && equals != value.npos)
      settings[value.substr(0, equals)] = value.substr(equals + 1);
    else if (!flag.starts_with("--watch"))
      settings[flag] = value.empty() ? "yes" : value;
  }
  if (!run.record->load.empty()) settings["--load"] = join(run.record->load, ", ");
  for (const auto& [name, text] : run.record->data) settings["data " + name] = text;
  return settings;
}

bool differs(const std::vector<std::string>& values) {
  return std::ranges::any_of(values, [&](const auto& value) { return value != values.front(); });
}

void add_given(const std::vector<RunData>& runs, std::vector<Setting>& found) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& [name, value] : settings_of(runs[i]))
      by_name.try_emplace(name, runs.size()).first->second[i] = value;
  for (auto& [name, values] : by_name)
    if (differs(values)) found.push_back({name, std::move(values)});
}

void add_recorded(const std::vector<RunData>& runs, std::vector<Setting>& found) {
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? std::to_string(*value) : std::string();
  };
  const std::pair<const char*, std::function<std::string(const Record&)>> kinds[] = {
      {"job", [](const Record& record) { return record.job; }},
      {"job file", [](const Record& record) { return record.source; }},
      {"seed", [&](const Record& record) { return number(record.seed); }},
      {"device", [](const Record& record) { return record.device; }},
      {"ranks", [&](const Record& record) { return number(record.ranks); }},
      {"flow", [](const Record& record) { return record.version; }},
      {"host", [](const Record& record) { return record.host; }}};
  for (const auto& [name, value_of] : kinds) {
    std::vector<std::string> values;
    for (const RunData& run : runs)
      if (run.record) values.push_back(value_of(*run.record));
    if (values.size() < 2 || !differs(values)) continue;
    values.clear();
    for (const RunData& run : runs)
      values.push_back(run.record ? value_of(*run.record) : std::string());
    found.push_back({name, std::move(values)});
  }
}

/// What the plans have differently: where no flag says why.
void add_planned(const std::vector<RunData>& runs, std::vector<Setting>& found) {
  if (!runs.front().plan || !runs.front().job) return;
  std::map<std::string, std::vector<std::string>> by_key;
  for (size_t i = 1; i < runs.size(); ++i) {
    if (!runs[i].plan || !runs[i].job || runs[i].job->name != runs.front().job->name) continue;
    for (const auto& change :
         plan::list_job_changes(*runs.front().plan, *runs[i].plan, runs.front().job->name)) {
      auto& values = by_key.try_emplace(change.key, runs.size()).first->second;
      values[0] = change.before;
      values[i] = change.after;
    }
  }
  for (auto& [key, values] : by_key) {
    for (size_t i = 1; i < runs.size(); ++i)
      if (values[i].empty() && runs[i].plan) values[i] = values[0];
    found.push_back({key, std::move(values)});
  }
}

}  // namespace

std::string command_of(const RunData& run) {
  if (!run.record) return {};
  const Record& record = *run.record;
  std::vector<std::string> words = {"flowrun", record.job, record.source};
  for (const std::string& override : record.overrides) {
    const auto [flag, value] = words_of(override);
    words.push_back(flag);
    if (!value.empty()) words.push_back(value);
  }
  for (const std::string& load : record.load) words.insert(words.end(), {"--load", load});
  words.insert(words.end(), {"-o", run.directory.string()});
  return command_line(words);
}

std::vector<Setting> differing_settings(const std::vector<RunData>& runs) {
  std::vector<Setting> found;
  if (runs.size() < 2) return found;
  add_given(runs, found);
  add_recorded(runs, found);
  if (found.empty()) add_planned(runs, found);
  if (found.size() > kMost) found.resize(kMost);
  return found;
}

}  // namespace flow::cli::report
