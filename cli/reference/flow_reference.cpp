// flow_reference writes the reference as Markdown, man pages, completions and, for tests, records
// of ops. Only the build uses it, so it is not installed.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/reference/pages.h"
#include "cli/shared/command_line.h"
#include "cli/shared/console.h"
#include "compiler/ir/describe_ops.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw RunError("cannot run " + command);
  std::string text;
  char buffer[4096];
  while (const size_t read = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, read);
  if (::pclose(pipe) != 0) throw RunError(command + " failed");
  return text;
}

/// Returns the command lines of the programs in the folder.
std::vector<CommandInfo> programs_in(const fs::path& folder) {
  std::vector<CommandInfo> programs;
  for (const char* name : {"flowc", "flowrun", "flowdiff"}) {
    const std::vector<std::string> words = {(folder / name).string(), std::string(kDescribeFlag)};
    programs.push_back(Json::parse(output_of(command_line(words))).get<CommandInfo>());
  }
  return programs;
}

std::vector<GeneratedFile> reference(std::span<const CommandInfo> programs) {
  std::vector<GeneratedFile> files;
  for (const ReferencePage& page : reference_pages())
    files.push_back({fmt::format("{}.md", page.name), page.text()});
  files.push_back({"flags.md", flags_page(programs)});
  return files;
}

constexpr std::array kDomains = {"unit", "wide", "positive", "inside", "above_one"};

OrderedJson record_of(const ops::OpSpec& op) {
  OrderedJson operands = OrderedJson::array(), attributes = OrderedJson::array();
  for (const ops::OperandSpec& operand : op.operands)
    operands.push_back({{"name", operand.name}, {"type", operand_type(operand)}});
  for (const ops::AttributeSpec& attribute : op.attributes)
    attributes.push_back({{"name", attribute.name},
                          {"type", attribute_type(attribute)},
                          {"default", attribute.fallback}});
  return {{"name", op.name},          {"operands", operands},
          {"attributes", attributes}, {"domain", kDomains[static_cast<size_t>(op.domain)]},
          {"numpy", op.numpy},        {"examples", op.examples}};
}

/// Returns ops.json, which tells tests about the primitives that a job file may name, with
/// examples.
std::vector<GeneratedFile> op_records() {
  OrderedJson records = OrderedJson::array();
  for (const ops::OpSpec* op : ops::written_specs())
    if (!op->examples.empty()) records.push_back(record_of(*op));
  return {{"ops.json", records.dump(2)}};
}

void write(const fs::path& folder, const std::vector<GeneratedFile>& files) {
  for (const GeneratedFile& file : files) {
    const fs::path path = folder / file.name;
    make_folders(path.parent_path());
    if (!fs::exists(path) || read_text(path) != file.text) write_text_atomically(path, file.text);
  }
}

int run(int argc, char** argv) {
  std::string action, programs, folder;
  CLI::App app("Writes the reference, man pages, completions and records of ops.",
               "flow_reference");
  configure(app, "flow_reference");
  Flags flags(app);
  flags.choice("ACTION", action, {"write", "man", "completions", "records"}, "what to do")
      ->required();
  flags.argument("PROGRAMS", programs, "the folder of flowc, flowrun and flowdiff");
  flags.argument("FOLDER", folder, "where the files are");
  if (const int status = parse(app, argc, argv); status >= 0) return status;
  const std::vector<CommandInfo> commands = programs_in(programs);
  write(folder, action == "man"           ? man_pages(commands)
                : action == "completions" ? completions(commands)
                : action == "records"     ? op_records()
                                          : reference(commands));
  return kDone;
}

}  // namespace
}  // namespace flow::cli

int main(int argc, char** argv) {
  return flow::cli::guarded("flow_reference", [&] { return flow::cli::run(argc, argv); });
}
