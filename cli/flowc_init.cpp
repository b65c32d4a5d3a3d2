// `flowc init`: lists templates, or writes one and says what to do next.
#include "cli/flowc_init.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/console.h"
#include "cli/installed.h"
#include "cli/templates.h"
#include "compiler/complete.h"
#include "compiler/schema/schema.h"
#include "runtime/base/display.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

int list_templates() {
  print("flowc init NAME writes NAME.yaml, a commented job file to start from:\n");
  for (const Template& one : templates()) {
    // The first line of each says what it is.
    const std::string_view line = one.text.substr(0, one.text.find('\n'));
    print(fmt::format("  {:<18}{}\n", one.name, line.starts_with("# ") ? line.substr(2) : line));
  }
  return kDone;
}

const Template& find_template(const std::string& name) {
  const auto found = std::ranges::find(templates(), name, &Template::name);
  if (found != templates().end()) return *found;
  std::vector<std::string> names;
  for (const Template& one : templates()) names.emplace_back(one.name);
  throw unknown_name(fmt::format("unknown template `{}`", name), name, names,
                     "run `flowc init` to list them");
}

/// The template's text; the commands of its leading comment name this file.
std::string text_for(const Template& one, const fs::path& path) {
  std::string text(one.text);
  const std::string original = fmt::format("jobs/{}.yaml", one.name);
  const std::string here = escaped(command_line({{path.string()}}));
  for (size_t at = 0; (at = text.find(original, at)) < text.find("\nflow:"); at += here.size())
    text.replace(at, original.size(), here);
  return text;
}

/// "flowrun train lenet.yaml", or "flowrun hooks.yaml" where that is the only job.
std::string first_run(const fs::path& path, const std::string& text) {
  const std::vector<std::string> jobs = jobs_in(path.string(), text);
  std::vector<std::string> words = {"flowrun", path.string()};
  if (jobs.size() > 1) words.insert(words.begin() + 1, jobs.front());
  return command_line(words);
}

/// Folders of jobs/ that the text names and that are not next to the file.
std::vector<std::string> missing_folders(const Template& one, const fs::path& path) {
  std::vector<std::string> missing;
  for (const std::string folder : {"data", "hooks"})
    if (one.text.find(folder + '/') != one.text.npos && !fs::exists(path.parent_path() / folder))
      missing.push_back(folder);
  return missing;
}

}  // namespace

int init_job_file(const FlowcOptions& options) {
  if (options.start.empty()) return list_templates();
  const Template& start = find_template(options.start);
  const fs::path path = options.output.empty() ? options.start + ".yaml" : options.output;
  check_new_file(path);
  constexpr std::string_view kSchema = "job.schema.json";
  const fs::path schema = path.parent_path() / kSchema;
  if (!fs::exists(schema)) write_text_atomically(schema, job_schema());
  const std::string text = text_for(start, path);
  write_text_atomically(path, fmt::format("# yaml-language-server: $schema={}\n{}", kSchema, text));
  print_to_stderr(fmt::format(
      "{}: written; next: {}, then {}; editors complete it with {}\n", escaped(path.string()),
      escaped(command_line(std::vector<std::string>{"flowc", "check", path.string()})),
      escaped(first_run(path, text)), escaped(schema.string())));
  const std::vector<std::string> missing = missing_folders(start, path);
  const std::string jobs =
      installed_jobs().empty() ? "FLOW/jobs" : command_line({{installed_jobs().string()}});
  if (!missing.empty())
    print_to_stderr(fmt::format(
        "{}: copy {} from flow's jobs/ directory next to it, or run it with --root {}\n",
        escaped(path.string()), join(missing, " and "), jobs));
  return kDone;
}

}  // namespace flow::cli
