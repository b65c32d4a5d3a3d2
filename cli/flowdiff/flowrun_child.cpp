// Starts flowrun, and keeps what it prints.
#include "cli/flowdiff/flowrun_child.h"

#include "cli/shared/installed.h"
#include "cli/shared/stop_request.h"
#include "runtime/base/text.h"
#include "runtime/io/process.h"

namespace flow::cli {
namespace {

/// flowrun next to this program.
std::string flowrun() {
  std::error_code error;
  const fs::path program = running_program().parent_path() / "flowrun";
  return fs::exists(program, error) ? program.string() : "flowrun";
}

}  // namespace

std::string FlowrunChild::run(const std::vector<std::string>& words,
                              const std::map<std::string, std::string>& environment) const {
  const fs::path log = work_.path() / "log";
  io::ProcessOptions options{
      .words = {"/bin/sh", "-c", "exec \"$@\" >\"$0\" 2>&1", log.string(), flowrun()},
      .environment = environment,
      .directory = fs::current_path(),
      .stopping = is_stopping};
  options.words.insert(options.words.end(), words.begin(), words.end());
  options.keeper = &keeper_;
  io::Process process(options);
  process.close_input();
  const auto status = process.wait({});
  if (is_stopping()) throw Stopped();  // the destructor ends the process
  if (status && status->good()) return {};
  const std::string first = split(trimmed(read_text(log)), '\n').front();
  return first.empty() && status ? "flowrun " + status->str() : first;
}

}  // namespace flow::cli
