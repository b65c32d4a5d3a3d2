// Topics of `flowc help`: what they are called, their first lines, their texts. Lists of names for
// shells.
#include <algorithm>
#include <regex>

#include "cli/flowc/flowc.h"
#include "cli/reference/pages.h"
#include "cli/shared/markdown.h"
#include "compiler/compile.h"
#include "compiler/diag/diag.h"
#include "compiler/passes/pipeline.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/plan/serialize.h"

namespace flow::cli {
namespace {

/// The heading of a document, without its marks.
std::string title_of(std::string_view markdown) {
  const std::vector<Block> blocks = parse_markdown(markdown.substr(0, 4096));
  const auto heading = std::ranges::find(blocks, Block::Kind::kHeading, &Block::kind);
  if (heading == blocks.end()) return {};
  std::string title;
  for (const Inline& part : parse_inline(heading->text)) title += part.text;
  return title;
}

/// Links to topics have the commands that show them: "hooks (`flowc help hooks`)". Tables have no
/// room for them.
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

/// The jobs of a job file, or of a plan, which is JSON with jobs in a list.
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
    } catch (const RunError&) {  // no file, or no plan
    }
  return names;
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

}  // namespace flow::cli
