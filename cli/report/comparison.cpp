// Reads the JSON of flowdiff.
#include "cli/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/run/run_files.h"
#include "runtime/plan/json/json_fields.h"
#include "runtime/plan/json/json_text.h"

namespace flow::cli::report {
namespace {

using plan::text_in;

constexpr uint64_t kLargest = 16 << 20;
constexpr size_t kMostRows = 50, kMostNotes = 20;

std::string number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return "";
  return found->is_number_integer() ? std::to_string(found->get<int64_t>())
                                    : fmt::format("{:.2e}", found->get<double>());
}

std::string error_in(const Json& array, const char* key) {
  const auto worst = array.find(key);
  return worst != array.end() && worst->is_object() ? number_in(*worst, "error") : "";
}

std::string why(const Json& array) {
  if (const auto look = array.find("look"); look != array.end() && look->is_object())
    return "looks like: " + text_in(*look, "text");
  if (const std::string detail = text_in(array, "detail"); !detail.empty()) return detail;
  const auto doubts = array.find("doubts");
  return doubts != array.end() && doubts->is_array() && !doubts->empty() &&
                 doubts->front().is_string()
             ? doubts->front().get<std::string>()
             : "";
}

Comparison::Row row_of(const Json& array) {
  Comparison::Row row{text_in(array, "name"),     text_in(array, "verdict"),
                      error_in(array, "max_abs"), error_in(array, "max_rel"),
                      number_in(array, "over"),   why(array)};
  if (!row.over.empty()) row.over += " of " + number_in(array, "elements");
  return row;
}

bool is_good(const Comparison::Row& row) {
  return row.verdict == "equal" || row.verdict == "within";
}

/// Null where it is not JSON, or nested too deeply.
Json parse_bounded(const std::string& text) {
  try {
    return plan::parse_json(text, "");
  } catch (const RequestError&) {
    return nullptr;
  }
}

bool is_comparison(const Json& json) {
  return json.is_object() && json.contains("golden") && json.contains("out") &&
         json.contains("summary") && json.contains("arrays") && json["arrays"].is_array();
}

Comparison comparison_of(const Json& json) {
  Comparison found{.golden = text_in(json, "golden"),
                   .out = text_in(json, "out"),
                   .summary = text_in(json, "summary")};
  if (const auto failed = json.find("failed"); failed != json.end() && failed->is_boolean())
    found.failed = failed->get<bool>();
  for (const Json& array : json["arrays"])
    if (array.is_object()) found.rows.push_back(row_of(array));
  std::stable_partition(found.rows.begin(), found.rows.end(),
                        [](const auto& row) { return !is_good(row); });
  found.left_out = found.rows.size() - std::min(found.rows.size(), kMostRows);
  found.rows.resize(found.rows.size() - found.left_out);
  if (const auto first = json.find("first"); first != json.end() && first->is_object())
    found.notes.push_back("first to differ: " + text_in(*first, "array") +
                          (first->contains("step") ? " in step " + number_in(*first, "step") : ""));
  if (const std::string plans = text_in(json, "plans"); !plans.empty())
    found.notes.push_back(plans);
  if (const auto notes = json.find("notes"); notes != json.end() && notes->is_array())
    for (const Json& note : *notes)
      if (note.is_string() && found.notes.size() < kMostNotes)
        found.notes.push_back(note.get<std::string>());
  return found;
}

}  // namespace

Comparison read_comparison(const fs::path& path) {
  const auto refuse = [&](const std::string& what) {
    return RequestError(fmt::format("--diff {}: {}", path.string(), what),
                        "write it with flowdiff GOLDEN OUT --json FILE");
  };
  std::error_code error;
  if (!fs::exists(path, error)) throw refuse("no such file");
  if (!fs::is_regular_file(path, error)) throw refuse("not a file");
  if (const uint64_t size = fs::file_size(path, error); error || size > kLargest)
    throw refuse(fmt::format("it has more than {}", human_bytes(kLargest)));
  const Json json = parse_bounded(read_text(path));
  if (!is_comparison(json)) throw refuse("it is not a report of flowdiff");
  return comparison_of(json);
}

std::vector<Comparison> find_comparisons(RunData& run) {
  constexpr size_t kMostFiles = 32;
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run.directory, error))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.size() > kMostFiles) {
    run.note(fmt::format("only the first {} of {} JSON files are looked at for comparisons",
                         kMostFiles, files.size()));
    files.resize(kMostFiles);
  }
  std::vector<Comparison> found;
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    if (name == exec::kPlanFile || name == exec::kRunRecord || name == "profile.json") continue;
    const auto text = read_bounded(path, kLargest, run);
    if (!text) continue;
    const Json json = parse_bounded(*text);
    if (is_comparison(json)) found.push_back(comparison_of(json));
  }
  return found;
}

}  // namespace flow::cli::report
