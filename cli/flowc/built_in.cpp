// The texts that the build puts into flowc: `flowc init` writes templates with the files that they
// include, and prints the next steps; `flowc help` shows topics. Also lists names for shell
// completion.
#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string_view>

#include "cli/flowc/flowc.h"
#include "cli/reference/pages.h"
#include "cli/shared/console.h"
#include "cli/shared/markdown.h"
#include "compiler/compile.h"
#include "compiler/diag/diag.h"
#include "compiler/passes/pipeline.h"
#include "compiler/schema/schema.h"
#include "ops/core/spec.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/plan/serialize.h"

namespace flow::cli {
namespace {

/// Returns the heading of a document without its Markdown marks.
std::string title_of(std::string_view markdown) {
  const std::vector<Block> blocks = parse_markdown(markdown.substr(0, 4096));
  const auto heading = std::ranges::find(blocks, Block::Kind::kHeading, &Block::kind);
  if (heading == blocks.end()) return {};
  std::string title;
  for (const Inline& part : parse_inline(heading->text)) title += part.text;
  return title;
}

/// Adds to each link to a topic the command that shows the topic: "hooks (`flowc help hooks`)".
/// Tables have no room for the commands.
std::string with_commands(std::string_view markdown) {
  static const std::regex kLink(R"(\[([^\]]+)\]\((?:\.\./|guide/|reference/)*()" +
                                join(topic_names(), "|") + R"()\.md[^)]*\))");
  std::string text;
  for (const std::string& line : split(markdown, '\n'))
    text +=
        (line.starts_with('|') ? line : std::regex_replace(line, kLink, "$1 (`flowc help $2`)")) +
        '\n';
  return text;
}

Block row_table() { return {Block::Kind::kTable, 0, {}, {}, {{}}}; }

using Names = std::vector<std::string>;

/// Returns the names of the jobs of a job file, or of a plan, which is JSON with a list of jobs.
Names jobs_of(const std::string& file) {
  std::string text = read_text(file);
  if (!text.starts_with('{')) return jobs_in(file, std::move(text));
  Names names;
  for (const plan::Job& job : plan::from_json(text, file).jobs) names.push_back(job.name);
  return names;
}

template <typename Table>
Names names_in(const Table& table, auto name) {
  Names names;
  for (const auto& row : table) names.emplace_back(name(row));
  return names;
}

Names names_of(const CompletionRequest& request) {
  if (request.kind == "ops")
    return names_in(ops::written_specs(), [](const ops::OpSpec* op) { return op->name; });
  if (request.kind == "codes")
    return names_in(all_diagnoses(), [](const DiagnosisInfo& info) { return info.code; });
  if (request.kind == "templates")
    return names_in(templates(), [](const Template& one) { return one.name; });
  if (request.kind == "passes")
    return names_in(passes::pipeline(), [](const passes::Pass& pass) { return pass.name; });
  if (request.kind == "topics") return topic_names();
  Names names;
  for (const std::string& file : request.files) try {
      Names more;
      if (request.kind == "jobs") more = jobs_of(file);
      if (request.kind == "paths") more = set_paths(file, read_text(file), request.word);
      names.insert(names.end(), more.begin(), more.end());
    } catch (const RunError&) {  // the file is missing or is not a plan
    }
  return names;
}

int list_templates() {
  print_fitted("flowc init NAME writes NAME.yaml, a commented job file to start from:\n");
  for (const Template& one : templates()) {
    // The first line of each template describes it.
    const std::string_view line = one.text.substr(0, one.text.find('\n'));
    print_fitted(
        fmt::format("  {:<18}{}\n", one.name, line.starts_with("# ") ? line.substr(2) : line));
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

/// Replaces `from` in the leading comment of a job file.
void replace_in_comment(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) < text.find("\nflow:"); at += to.size())
    text.replace(at, from.size(), to);
}

/// Returns the template's text. Its leading comment names the new file and the data next to it.
std::string text_for(const Template& one, const fs::path& path) {
  const auto quoted = [](const fs::path& name) { return escaped(command_line({{name.string()}})); };
  std::string text(one.text);
  replace_in_comment(text, fmt::format("jobs/{}.yaml", one.name), quoted(path));
  replace_in_comment(text, "jobs/data/", quoted(path.parent_path() / "data") + '/');
  return text;
}

/// Returns "flowrun train lenet.yaml", or "flowrun hooks.yaml" if the file has only one job.
std::string first_run(const fs::path& path, const std::string& text) {
  const std::vector<std::string> jobs = jobs_in(path.string(), text);
  std::vector<std::string> words = {"flowrun", path.string()};
  if (jobs.size() > 1) words.insert(words.begin() + 1, jobs.front());
  return command_line(words);
}

constexpr std::string_view kSchema = "job.schema.json";

fs::path schema_beside(const fs::path& path) { return path.parent_path() / kSchema; }

void write_template(const fs::path& path, const std::string& text) {
  if (const fs::path schema = schema_beside(path); !fs::exists(schema))
    write_text_atomically(schema, job_schema());
  write_text_atomically(path, fmt::format("# yaml-language-server: $schema={}\n{}", kSchema, text));
}

/// Returns the templates that a template includes. It names them in one line: `include:
/// [gpt2.yaml]`.
std::vector<const Template*> included_by(const Template& one) {
  constexpr std::string_view kInclude = "\ninclude: [";
  const size_t at = one.text.find(kInclude);
  if (at == one.text.npos) return {};
  const std::string_view list = one.text.substr(at + kInclude.size());
  std::vector<const Template*> included;
  for (const std::string& file : split(list.substr(0, list.find(']')), ','))
    included.push_back(&find_template(fs::path(trimmed(file)).stem().string()));
  return included;
}

/// Returns the folders from which the text reads files: "data/mnist", "hooks".
std::set<std::string> folders_in(std::string_view text) {
  constexpr std::string_view kData = "data/";
  std::set<std::string> folders;
  for (size_t at = 0; (at = text.find(kData, at)) != text.npos; at += kData.size()) {
    const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at + 5);
    folders.emplace(text.substr(at, end - at));
  }
  if (text.find("hooks/") != text.npos) folders.emplace("hooks");
  return folders;
}

/// Prints where to get the folders that are missing next to the file: from jobs/ or from the user.
void print_missing_folders(std::string_view text, const fs::path& path) {
  std::vector<std::string> ours, users;
  for (const std::string& folder : folders_in(text)) {
    if (fs::exists(path.parent_path() / folder)) continue;
    const bool known = folder == "hooks" || std::ranges::count(data_folders(), folder) > 0;
    (known ? ours : users).push_back(folder);
  }
  const std::string jobs =
      installed_jobs().empty() ? "FLOW/jobs" : command_line({{installed_jobs().string()}});
  if (!ours.empty())
    print_to_stderr(fmt::format(
        "{}: copy {} from flow's jobs/ directory next to it, or run it with --root {}\n",
        escaped(path.string()), join(ours, " and "), jobs));
  if (!users.empty())
    print_to_stderr(
        fmt::format("{}: put your own data in {}; the comment at the top of the file describes "
                    "it\n",
                    escaped(path.string()), join(users, " or ")));
}

}  // namespace

std::vector<std::string> topic_names() {
  std::vector<std::string> names;
  for (const Guide& guide : guides()) names.emplace_back(guide.name);
  for (const ReferencePage& page : reference_pages()) names.emplace_back(page.name);
  return names;
}

std::string list_topics(size_t columns) {
  Block documents = row_table(), reference = row_table();
  for (const Guide& guide : guides())
    documents.rows.push_back({std::string(guide.name), title_of(guide.text)});
  for (const ReferencePage& page : reference_pages())
    reference.rows.push_back({std::string(page.name), std::string(page.summary)});
  const auto title = [](const char* text) { return Block{Block::Kind::kParagraph, 0, text}; };
  std::vector<Block> blocks = {title("flowc help TOPIC shows one of these topics.")};
  if (documents.rows.size() > 1) {
    blocks.push_back(title("Guides:"));
    blocks.push_back(std::move(documents));
  }
  blocks.push_back(title("Reference:"));
  blocks.push_back(std::move(reference));
  blocks.push_back(title("flowc COMMAND --help shows the flags of a command."));
  return to_terminal(blocks, columns, false);
}

std::string topic_text(std::string_view name, size_t columns, bool color) {
  if (const auto guide = std::ranges::find(guides(), name, &Guide::name); guide != guides().end())
    return to_terminal(parse_markdown(with_commands(guide->text)), columns, color);
  const auto page = std::ranges::find(reference_pages(), name, &ReferencePage::name);
  if (page == reference_pages().end()) return {};
  return to_terminal(parse_markdown(with_commands(page->text())), columns, color);
}

std::string completions_of(const CompletionRequest& request) {
  std::string text;
  for (const std::string& name : names_of(request)) text += name + '\n';
  return text;
}

void write_first_job_file(const fs::path& path, const std::string& text, const std::string& with) {
  write_template(path, text);
  print_to_stderr(fmt::format(
      "{}: written{}; next: {}, then {}; editors complete it with {}\n", escaped(path.string()),
      with, escaped(command_line(std::vector<std::string>{"flowc", "check", path.string()})),
      escaped(first_run(path, text)), escaped(schema_beside(path).string())));
}

int init_job_file(const FlowcOptions& options) {
  if (!options.from.empty()) return init_from_data(options);
  if (options.start.empty()) return list_templates();
  const Template& start = find_template(options.start);
  const fs::path path = options.output.empty() ? options.start + ".yaml" : options.output;
  check_new_file(path);
  for (const Template* one : included_by(start))
    if (path.filename() == fmt::format("{}.yaml", one->name))
      throw RequestError(
          fmt::format("{} includes a file of that name: {}.yaml", options.start, one->name),
          "choose another name with -o");
  std::string all(start.text), with;
  for (const Template* one : included_by(start)) {
    const fs::path beside = path.parent_path() / fmt::format("{}.yaml", one->name);
    if (!fs::exists(beside)) {
      write_template(beside, text_for(*one, beside));
      with += fmt::format("{} with {}", with.empty() ? "," : " and", escaped(beside.string()));
    }
    all += one->text;
  }
  write_first_job_file(path, text_for(start, path), with);
  print_missing_folders(all, path);
  return kDone;
}

}  // namespace flow::cli
