// Finds and reads the file that a command names as FILE|PLAN.
#include "cli/shared/job_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/shared/console.h"
#include "compiler/compile.h"
#include "compiler/yaml/parse.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace flow::cli {
namespace {

bool is_job_file(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml";
}

/// Returns the sorted paths of the folder's job files, or of its other files.
std::vector<std::string> files_in(const fs::path& folder, bool job_files) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, unreadable))
    if (is_job_file(entry.path()) == job_files && entry.is_regular_file(unreadable))
      names.push_back((folder / entry.path().filename()).string());
  std::ranges::sort(names);
  return names;
}

/// Returns the file that the user may have meant, or an empty string if none is similar.
std::string near_file(const std::string& file) {
  for (const char* extension : {".yaml", ".yml"})
    if (fs::is_regular_file(file + extension)) return file + extension;
  const auto near = suggest(file, files_in(fs::path(file).parent_path(), is_job_file(file)));
  return near.empty() ? "" : near.front();
}

void require_file(const CompileRequest& request) {
  const std::string& file = request.file;
  if (fs::is_directory(file)) {
    const fs::path plan = fs::path(file) / exec::kPlanFile;
    throw RequestError(fmt::format("{} is a directory", file),
                       fs::exists(plan) ? fmt::format("use the plan of its run: {}", plan.string())
                                        : "name a job file in it");
  }
  if (fs::path(file).filename() == exec::kPlanFile && fs::exists(file) &&
      !fs::is_regular_file(file))
    throw RequestError(fmt::format("{} is not a file", file), "name the plan of a run");
  if (fs::exists(file)) return;
  if (request.job && fs::is_regular_file(*request.job))
    throw RequestError(
        fmt::format("no such file: {}", file),
        fmt::format("write the job before the file: flowrun {} {}", file, *request.job));
  const std::string near = near_file(file);
  throw RequestError(fmt::format("no such file: {}", file),
                     near.empty() ? "run `flowc init` to list job files to start from"
                                  : fmt::format("did you mean {}?", near));
}

std::optional<CompileResult> compile_aloud(const CompileRequest& request, std::string text) {
  CompileResult result = compile_text(request, std::move(text), message_layout());
  print_messages(request.file, result.messages, result.errors, result.objects);
  print(result.dump);
  if (result.errors == 0) return result;
  return {};
}

constexpr std::string_view kFirstOfPlan = "\"checksum\"";

/// Returns the text from the first key of a JSON object to the end, or an empty text if this is not
/// a JSON object.
std::string_view first_key(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t brace = text.find_first_not_of(kBlanks);
  if (brace == text.npos || text[brace] != '{') return {};
  const size_t key = text.find_first_not_of(kBlanks, brace + 1);
  return key == text.npos || text[key] != '"' ? std::string_view() : text.substr(key);
}

/// Returns true if the text is a plan, a JSON object that `flowc build` writes. A job file may also
/// be JSON, which is valid YAML, but it contains `flow`.
bool is_plan(const std::string& text) {
  const std::string_view key = first_key(text);
  if (key.empty()) return false;
  if (key.starts_with(kFirstOfPlan)) return true;
  const Json json = Json::parse(text, nullptr, false);
  return !json.is_object() || !json.contains("flow");
}

/// Reads the text of the file only once, because it may be a pipe. `-` is standard input. If the
/// file is too large for a job file and is not a plan, reads only enough to detect that.
std::string read_file(const CompileRequest& request) {
  const bool input = request.file == "-";
  if (!input) require_file(request);
  File file = File::open_read(input ? "/dev/stdin" : request.file);
  std::string text;
  yaml::read_on(file, text, yaml::kLargestFile + 1);
  if (first_key(text).starts_with(kFirstOfPlan)) yaml::read_on(file, text, text.max_size());
  return text;
}

/// Makes the root of a plan absolute. The plan of a run stores it relative to the folder of the
/// plan.
void resolve_root(plan::Plan& plan, const std::string& file) {
  if (plan.root.empty() || fs::path(plan.root).is_absolute() || file == "-" || is_descriptor(file))
    return;
  std::error_code error;  // a missing folder is reported later when it is read
  const fs::path root = fs::absolute(file).parent_path() / plan.root;
  const fs::path found = fs::weakly_canonical(root, error);
  plan.root = (error ? root : found).string();
}

}  // namespace

std::string read_job_file(const CompileRequest& request) {
  std::string text = read_file(request);
  if (is_plan(text))
    throw RequestError(fmt::format("{} is a plan, not a job file", request.file),
                       "use `flowc show` or `flowrun` with plans");
  return text;
}

std::optional<CompileResult> compile_aloud(const CompileRequest& request) {
  return compile_aloud(request, read_job_file(request));
}

std::optional<LoadedPlan> load(const CompileRequest& request) {
  std::string text = read_file(request);
  if (is_plan(text)) {
    if (!request.sets.empty() || !request.watches.empty() || !request.watch_diffs.empty() ||
        !request.watch_scopes.empty())
      throw RequestError(
          fmt::format("{} is a plan; --set and --watch require a job file", request.file),
          "run the job file with these options, or build a new plan with them");
    LoadedPlan loaded{.plan = plan::from_json(text, request.file), .from_job_file = false};
    resolve_root(loaded.plan, request.file);
    return loaded;
  }
  std::optional<CompileResult> result = compile_aloud(request, std::move(text));
  if (!result) return {};
  return LoadedPlan{.plan = std::move(*result->plan),
                    .from_job_file = true,
                    .entries = std::move(result->entries)};
}

std::string file_with_job(const std::string& job) {
  for (const std::string& file : files_in("", true)) try {
      if (std::ranges::count(jobs_in(file, read_text(file)), job) > 0) return file;
    } catch (const RunError&) {  // skips files that cannot be read
    }
  return {};
}

std::string job_names(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Job& job : plan.jobs) names.push_back("`" + job.name + "`");
  return join(names, ", ");
}

const plan::Job& find_job(const plan::Plan& plan, const std::string& name) {
  std::vector<std::string> names;
  for (const plan::Job& job : plan.jobs) {
    if (job.name == name) return job;
    names.push_back(job.name);
  }
  const auto near = suggest(name, names);
  throw RequestError(fmt::format("no job `{}` in {}", name, plan.source),
                     near.empty() ? fmt::format("use one of {}", job_names(plan))
                                  : fmt::format("did you mean `{}`?", near.front()));
}

}  // namespace flow::cli
