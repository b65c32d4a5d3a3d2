// Starts flowrun and keeps its output, and finds the command of a run and the checkpoint from which
// the run continues.
#include "cli/flowdiff/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <variant>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/input/source.h"
#include "runtime/io/checkpoint_folder.h"

namespace flow::cli {
namespace {

/// Returns the flowrun in the directory of this program, or "flowrun" if there is none.
std::string flowrun() {
  std::error_code error;
  const fs::path program = running_program().parent_path() / "flowrun";
  return fs::exists(program, error) ? program.string() : "flowrun";
}

constexpr std::string_view kInputFlag = "--input ";

/// Returns the argument of each `--input` of the run, such as "x=@x.npy".
std::vector<std::string> given_inputs(const compare::RunFacts& record) {
  std::vector<std::string> inputs;
  for (const std::string& line : record.overrides)
    if (line.starts_with(kInputFlag)) inputs.push_back(line.substr(kInputFlag.size()));
  return inputs;
}

/// Returns the input that came from a pipe, which delivers its data only once, or an empty string
/// if no input did.
std::string input_from_pipe(const compare::FingerprintedRun& run, const compare::RunFacts& record) {
  std::vector<std::string> given;
  for (const std::string& input : given_inputs(record)) {
    const size_t equals = std::min(input.find('='), input.size());
    given.push_back(input.substr(0, equals));
    const std::string source = input.substr(std::min(equals + 1, input.size()));
    if (source.starts_with('@') && exec::is_stream(source.substr(1))) return given.back();
  }
  const plan::Job& job = run.plan.ran();
  for (const plan::Input& input : job.inputs) {
    const auto* npy = std::get_if<plan::FromNpy>(&input.source);
    const std::string& name = job[input.tensor].name;
    if (npy && std::ranges::count(given, name) == 0 &&
        exec::is_stream(run.path / run.plan.plan.root / npy->path))
      return name;
  }
  return {};
}

fs::path newest_checkpoint(const fs::path& run, int64_t from) {
  const io::CheckpointFolder folder(run);
  fs::path newest;
  for (const int64_t step : folder.steps())
    if (step <= from) newest = folder.at(step);
  return newest;
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
  options.watchdog = &watchdog_;
  io::Process process(options);
  process.close_input();
  const auto status = process.wait({});
  if (is_stopping()) throw Stopped();  // the destructor ends the process
  if (status && status->good()) return {};
  const std::string first = split(trimmed(read_text(log)), '\n').front();
  return first.empty() && status ? "flowrun " + status->str() : first;
}

Rerun::Rerun(const compare::FingerprintedRun& run, int64_t from, int64_t step, fs::path directory)
    : run_(run),
      record_(run.record.value_or(compare::RunFacts())),
      step_(step),
      directory_(std::move(directory)),
      checkpoint_(newest_checkpoint(run.path, from)) {
  const std::string input = input_from_pipe(run, record_), &host = record_.host;
  const plan::Job& job = run.plan.ran();
  is_repeatable_ = input.empty() && !job.loop;
  if (job.loop)
    obstacle_ = fmt::format("job `{}` has a loop, which --capture does not support", job.name);
  else if (!input.empty())
    obstacle_ = fmt::format("input `{}` of {} came from a pipe, which gives its data once", input,
                            run.path.string());
  else if (!host.empty() && host != host_name())
    obstacle_ =
        fmt::format("{} was made on {}, and this is {}", run.path.string(), host, host_name());
}

std::vector<std::string> Rerun::words(const std::vector<std::string>& more) const {
  std::vector<std::string> words = {run_.plan.ran().name,
                                    (run_.path / exec::kPlanFile).string(),
                                    "-o",
                                    directory_.string(),
                                    "--no-commands",
                                    "--save",
                                    "none",
                                    "--steps",
                                    std::to_string(step_ + 1)};
  const std::string& device = record_.device;
  if (!device.empty()) words.insert(words.end(), {"--device", device == "cpu" ? "cpu" : "gpu"});
  for (const std::string& input : given_inputs(record_))
    words.insert(words.end(), {"--input", input});
  if (!checkpoint_.empty())
    words.emplace_back("--resume");
  else
    for (const std::string& load : record_.load) words.insert(words.end(), {"--load", load});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string Rerun::command(const std::vector<std::string>& more) const {
  std::vector<std::string> shown = words(more);
  shown.insert(shown.begin(), "flowrun");
  std::string text = command_line(shown);
  if (checkpoint_.empty()) return text;
  const std::string to = (directory_ / "checkpoints" / "").string();
  const std::string make[] = {"mkdir", "-p", to};
  const std::string copy[] = {"cp", "-r", checkpoint_.string(), to};
  const std::string drop[] = {"rm", "-f", to + checkpoint_.filename().string() + "/files.json"};
  return fmt::format("{} && {} && {} && {}", command_line(make), command_line(copy),
                     command_line(drop), text);
}

/// Copies the checkpoint without its list of output files, because the new directory lacks those
/// files.
void Rerun::copy_checkpoint() const {
  const fs::path to = directory_ / "checkpoints" / checkpoint_.filename();
  copy_tree(checkpoint_, to);
  if (const std::error_code error = remove_path(to / "files.json"))
    throw cannot("remove", to / "files.json", error.value());
}

std::string Rerun::run(const FlowrunChild& flowrun, const std::vector<std::string>& more) const {
  FLOW_CHECK(obstacle_.empty());
  if (!checkpoint_.empty()) copy_checkpoint();
  std::vector<std::string> quiet = words(more);
  quiet.emplace_back("--quiet");
  return flowrun.run(quiet);
}

}  // namespace flow::cli
