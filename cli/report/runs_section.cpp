// The section of the runs: a table if there are several, with the settings that differ, and the
// facts of each run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "cli/report/page.h"
#include "cli/shared/console.h"
#include "runtime/base/text.h"
#include "runtime/plan/difference.h"
#include "runtime/plan/json/records.h"

namespace flow::cli::report {
namespace {

constexpr size_t kMostSettings = 12;

using Record = compare::RunFacts;

/// Returns a text such as "60000 rows, 3f0c...".
std::string data_text(const Record::DataFile& file) {
  return (file.rows ? fmt::format("{} rows, ", *file.rows) : "") + file.digest.substr(0, 12);
}

/// Splits "--set vars.lr=0.1" into its two words.
std::pair<std::string, std::string> words_of(const std::string& override) {
  const size_t space = override.find(' ');
  return {override.substr(0, space), space == override.npos ? "" : override.substr(space + 1)};
}

/// Returns the settings of a run by name, such as "vars.lr": "0.1" and "--steps": "50".
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
  for (const auto& [name, file] : run.record->data) settings["data " + name] = data_text(file);
  return settings;
}

/// A setting that differs between runs.
struct Setting {
  std::string name;                 // "vars.lr", "device"
  std::vector<std::string> values;  // one per run; empty if the run was given no value
};

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

/// Adds the differences between the plans. Only needed if no flag explains why the runs differ.
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

/// Returns "flowrun train lenet.yaml --set vars.lr=0.1 -o runs/a", or an empty string if run.json
/// is missing.
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

/// Returns at most 12 settings that differ between the runs.
std::vector<Setting> differing_settings(const std::vector<RunData>& runs) {
  std::vector<Setting> found;
  if (runs.size() < 2) return found;
  add_given(runs, found);
  add_recorded(runs, found);
  if (found.empty()) add_planned(runs, found);
  if (found.size() > kMostSettings) found.resize(kMostSettings);
  return found;
}

struct State {
  const char* kind;  // a class of the style sheet
  const char* mark;  // distinguishes states without color
  std::string text;
};

State state_of(const RunData& run) {
  if (!run.record) return {"unknown", "?", "running, or killed"};
  const Record& record = *run.record;
  if (record.stop_reason == "done") return {"good", "✓", "done"};
  if (record.stop_reason.starts_with("early_stopping"))
    return {"good", "✓", clipped(record.stop_reason, kMostText)};
  if (record.stop_reason.starts_with("hook"))
    return {"stopped", "■", "stopped by a " + clipped(record.stop_reason, kMostText)};
  if (record.stop_reason == "signal" || record.stop_reason == "command")
    return {"stopped", "■", "stopped by a " + record.stop_reason};
  if (record.exit_status) return {"bad", "✕", fmt::format("failed: exit {}", *record.exit_status)};
  return {"unknown", "?", "unknown"};
}

Html badge(const RunData& run) {
  const State state = state_of(run);
  return fragment("badge", {{"kind", state.kind}, {"mark", state.mark}, {"text", state.text}});
}

std::string duration(double seconds) {
  return seconds >= 0 && seconds <= 1e9 ? human_seconds(seconds) : "?";
}

class Facts {
 public:
  void add(std::string_view name, const std::string& value) {
    if (!value.empty())
      html_ += fragment("fact", {{"name", name}, {"value", Html::text(value, 4000)}});
  }
  void add(std::string_view name, const std::optional<int64_t>& value) {
    if (value && *value >= 0) add(name, grouped_digits(static_cast<uint64_t>(*value)));
  }
  void add_bytes(std::string_view name, const std::optional<int64_t>& bytes) {
    if (bytes && *bytes > 0) add(name, human_bytes(static_cast<uint64_t>(*bytes)));
  }
  void add_html(std::string_view name, const Html& value) {
    html_ += fragment("fact", {{"name", name}, {"value", value}});
  }
  const Html& html() const { return html_; }

 private:
  Html html_;
};

std::string steps_text(const Record& record) {
  if (!record.last_step) return {};
  std::string text = std::to_string(*record.last_step);
  if (record.first_step.value_or(0) > 0) text += fmt::format(", resumed at {}", *record.first_step);
  if (record.epochs.value_or(0) > 0) text += fmt::format(" ({} epochs)", *record.epochs);
  return text;
}

std::string versions_text(const Record& record) {
  std::vector<std::string> parts;
  if (!record.version.empty()) parts.push_back("flow " + record.version);
  for (const auto& [name, version] : record.libraries) parts.push_back(name + " " + version);
  return join(parts, ", ");
}

Html facts_of(const RunData& run) {
  Facts facts;
  facts.add_html("state", badge(run));
  if (run.record) {
    const Record& record = *run.record;
    facts.add("error", record.error);
    facts.add("job", record.job);
    facts.add("job file", record.source);
    facts.add("directory", run.directory.string());
    facts.add("started", record.started);
    if (record.seconds) facts.add("time of steps", duration(*record.seconds));
    facts.add("steps", steps_text(record));
    facts.add("device", record.device + (record.instruction_set.empty() ? "" : ", ") +
                            record.instruction_set);
    facts.add("host", record.host);
    facts.add("threads", record.threads);
    facts.add("ranks", record.ranks);
    facts.add("seed", record.seed ? std::to_string(*record.seed) : "");
    facts.add("versions", versions_text(record));
    facts.add_bytes("arena", record.arena_bytes);
    facts.add_bytes("peak memory", record.peak_memory_bytes);
    facts.add_html("command", fragment("command", {{"text", Html::text(command_of(run), 8000)}}));
  } else {
    facts.add("directory", run.directory.string());
    if (run.plan) facts.add("job file", run.plan->source);
    if (run.job) facts.add("job", run.job->name);
  }
  return fragment("facts", {{"facts", facts.html()}});
}

/// Returns -1 if less is better, +1 if more is better, and 0 if the name does not show it.
int direction_of(const std::string& label) {
  constexpr std::array kLess = {"loss", "error", "perplexity", "mse", "mae"};
  constexpr std::array kMore = {"accuracy", "right", "correct", "auc", "f1", "recall", "score"};
  const auto has = [&](const char* word) { return label.find(word) != label.npos; };
  return std::ranges::any_of(kLess, has) ? -1 : std::ranges::any_of(kMore, has) ? 1 : 0;
}

/// The column of a metric in the table of runs.
struct Column {
  std::string title;
  int direction = 0;
  std::vector<const Curve*> curves;  // one per run; null if the run lacks the metric
};

std::vector<Column> metric_columns(const std::vector<RunData>& runs) {
  constexpr size_t kMostColumns = 7;
  std::vector<Column> columns;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const Curve& curve : runs[i].curves) {
      if (curve.label != "loss" && std::ranges::count(plan::kStepNumbers, curve.label) > 0)
        continue;
      auto column = std::ranges::find(columns, curve.title(), &Column::title);
      if (column == columns.end()) {
        if (columns.size() == kMostColumns) continue;
        columns.push_back({curve.title(), direction_of(curve.label),
                           std::vector<const Curve*>(runs.size(), nullptr)});
        column = columns.end() - 1;
      }
      column->curves[i] = &curve;
    }
  std::stable_partition(columns.begin(), columns.end(),
                        [](const auto& each) { return each.title == "loss"; });
  return columns;
}

std::optional<double> best_of(const Column& column, size_t run) {
  const Curve* curve = column.curves[run];
  if (!curve || column.direction == 0) return {};
  const auto best = column.direction < 0 ? curve->series.least() : curve->series.greatest();
  return best ? std::optional(best->y) : std::nullopt;
}

bool is_best_of_all(const Column& column, size_t run) {
  const auto own = best_of(column, run);
  if (!own) return false;
  bool any_other = false;
  for (size_t i = 0; i < column.curves.size(); ++i) {
    const auto other = best_of(column, i);
    if (!other || i == run) continue;
    if ((*other - *own) * column.direction > 0) return false;
    any_other = true;
  }
  return any_other;
}

Html metric_cell(const Column& column, size_t run) {
  const Curve* curve = column.curves[run];
  if (!curve || !curve->series.last()) return fragment("cell", {{"text", "–"}});
  const auto number = [](const std::optional<Series::Point>& point) {
    return point ? human_number(point->y) : "?";
  };
  const Series& series = curve->series;
  const auto best = best_of(column, run);
  const std::string more =
      best ? "best " + human_number(*best)
           : fmt::format("{} to {}", number(series.least()), number(series.greatest()));
  return fragment("metric cell", {{"class", is_best_of_all(column, run) ? "best" : ""},
                                  {"last", number(series.last())},
                                  {"more", more}});
}

Html table_of(const std::vector<RunData>& runs) {
  const std::vector<Setting> settings = differing_settings(runs);
  const std::vector<Column> columns = metric_columns(runs);
  Html head, rows;
  for (const Setting& setting : settings)
    head += fragment("head", {{"text", Html::text(setting.name, 60)}});
  for (const Column& column : columns)
    head += fragment("number head", {{"text", Html::text(column.title, 60)}});
  for (size_t i = 0; i < runs.size(); ++i) {
    Html cells;
    for (const Setting& setting : settings)
      cells += fragment(
          "cell", {{"text", setting.values[i].empty() ? "–" : Html::text(setting.values[i], 80)}});
    for (const Column& column : columns) cells += metric_cell(column, i);
    const auto& record = runs[i].record;
    const bool counted = record && record->last_step;
    const std::string steps = counted ? std::to_string(*record->last_step) : "–";
    rows +=
        fragment("run row", {{"class", class_of_run(i)},
                             {"index", i},
                             {"name", runs[i].name},
                             {"cells", cells},
                             {"steps", steps},
                             {"time", record && record->seconds ? duration(*record->seconds) : "–"},
                             {"state", badge(runs[i])}});
  }
  return fragment("run table", {{"head", head}, {"rows", rows}});
}

}  // namespace

Html runs_section(const Report& report) {
  if (report.runs.size() == 1) return section("run", "Runs", "", facts_of(report.runs.front()));
  Html body = table_of(report.runs);
  for (size_t i = 0; i < report.runs.size(); ++i)
    body += fragment("run details", {{"class", class_of_run(i)},
                                     {"name", report.runs[i].name},
                                     {"facts", facts_of(report.runs[i])}});
  return section("run", "Runs", "the last value of each metric, and its best or its range", body);
}

}  // namespace flow::cli::report
