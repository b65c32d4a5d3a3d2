// Finds and reads the reports of flowdiff.
#include "cli/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json_text.h"

namespace flow::cli::report {
namespace {

constexpr uint64_t kLargest = 16 << 20;

/// Null where it is not JSON, or nested too deeply.
Json parse_bounded(const std::string& text) {
  try {
    return plan::parse_json(text, "");
  } catch (const RequestError&) {
    return nullptr;
  }
}

/// A run directory has other JSON files, too.
bool is_comparison(const Json& json) {
  return json.is_object() && json.contains("golden") && json.contains("summary") &&
         json.contains("arrays");
}

}  // namespace

DiffReport read_comparison(const fs::path& path) {
  const auto refuse = [&](const std::string& what) {
    return RequestError(fmt::format("--diff {}: {}", path.string(), what),
                        "write it with flowdiff GOLDEN OUT --json FILE");
  };
  std::error_code error;
  if (!fs::exists(path, error)) throw refuse("no such file");
  if (!fs::is_regular_file(path, error)) throw refuse("not a file");
  if (const uint64_t size = fs::file_size(path, error); error || size > kLargest)
    throw refuse(fmt::format("it has more than {}", human_bytes(kLargest)));
  try {
    return read_diff_json(parse_bounded(read_text(path)));
  } catch (const RequestError& wrong) {
    throw refuse(wrong.what());
  }
}

std::vector<DiffReport> find_comparisons(RunData& run) {
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
  std::vector<DiffReport> found;
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    if (name == exec::kPlanFile || name == exec::kRunRecord || name == "profile.json") continue;
    const auto text = read_bounded(path, kLargest, run);
    if (!text) continue;
    const Json json = parse_bounded(*text);
    if (!is_comparison(json)) continue;
    try {
      found.push_back(read_diff_json(json));
    } catch (const RequestError& wrong) {
      run.note(fmt::format("{} is left out: {}", name, wrong.what()));
    }
  }
  return found;
}

}  // namespace flow::cli::report
