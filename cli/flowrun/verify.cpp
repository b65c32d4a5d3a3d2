// The command line of `flowrun verify`, which compiles the job, checks its properties and prints
// them.
#include "cli/flowrun/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "cli/flowrun/flowrun.h"
#include "cli/shared/command_line.h"
#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/verify/verify.h"

namespace flow::cli {
namespace {

/// Returns the elements of `all` that `names` lists, in the order of `all`, or all if `names` is
/// empty. Throws RequestError for an unknown name.
template <typename Info>
std::vector<const Info*> chosen(std::span<const Info> all, const std::vector<std::string>& names,
                                const char* flag, const char* what) {
  std::vector<std::string> known;
  for (const Info& info : all) known.emplace_back(info.name);
  for (const std::string& name : names) {
    if (std::ranges::count(known, name) > 0) continue;
    const auto near = suggest(name, known);
    throw RequestError(fmt::format("{}: unknown {} `{}`", flag, what, name),
                       near.empty() ? fmt::format("use one of {}", join(known, ", "))
                                    : fmt::format("did you mean `{}`?", near.front()));
  }
  std::vector<const Info*> found;
  for (const Info& info : all)
    if (names.empty() || std::ranges::count(names, info.name) > 0) found.push_back(&info);
  return found;
}

/// Returns one line per element, such as "  repeat      run twice".
template <typename Info>
std::string list(std::span<const Info> all) {
  std::string text;
  for (const Info& info : all) text += fmt::format("  {:<12}{}\n", info.name, info.doc);
  return text;
}

void add_shaping(Flags& flags, RunOptions& run) {
  flags.many("--set", "PATH=YAML", run.sets, "set a value in the job file; repeatable");
  flags.many("--input", "NAME=SPEC", run.inputs, "feed an input, as in a run; repeatable");
  flags.many("--watch", "NAME[:N]", run.watches, "also compare this tensor; repeatable");
  flags.many("--watch-diff", "NAME[:N]", run.watch_diffs,
             "also compare the gradient of this tensor; repeatable");
  flags.value("--root", "DIR", run.root, "base directory of the job's paths");
  flags.many("--load", "CKPT", run.load, "load variables, as in a run; repeatable");
  flags.many("--load-partial", "GLOB", run.load_partial,
             "initialize matching variables if CKPT lacks them; repeatable");
  flags.choice("--device", run.device, {"auto", "cpu", "gpu"},
               "default: auto, a GPU if one is usable");
}

/// Returns the properties that `--only` names, or all. Throws RequestError for an unknown name.
std::vector<const verify::Property*> chosen_properties(const VerifyOptions& options) {
  return chosen(verify::all_properties(), options.only, "--only", "property");
}

/// Returns the kinds of damage that `--damage` names, or all. Throws RequestError for an unknown
/// name.
std::vector<const verify::DamageInfo*> chosen_damages(const VerifyOptions& options) {
  return chosen(verify::all_damages(), options.damages, "--damage", "kind of damage");
}

/// Searches for a GPU in a child process, because children cannot use a driver that this process
/// has already used.
bool is_gpu_usable(const RunOptions& options) {
  const auto look = [&] { return std::string(find_gpu(options).found() ? "yes" : ""); };
  const verify::ChildEnd end = verify::run_in_child(look, is_stopping);
  if (end.status != kDone) throw RunError(end.error, end.hint, end.status);
  return !end.result.empty();
}

void require_file_read_twice(const std::string& file) {
  std::error_code unknown;
  if (file != "-" && (fs::is_regular_file(file, unknown) || !fs::exists(file, unknown) ||
                      fs::is_directory(file, unknown)))
    return;
  throw RequestError(fmt::format("{} can be read only once", file == "-" ? "standard input" : file),
                     "save the job file, and name it");
}

/// Returns the message of the first error without its place, which may be in a `--set` that the
/// program added rather than the user.
std::string first_problem(const std::vector<OrderedJson>& diagnostics) {
  const auto found = std::ranges::find_if(
      diagnostics, [](const OrderedJson& one) { return one["severity"] == "error"; });
  return found == diagnostics.end() ? "" : escaped((*found)["message"].get<std::string>());
}

/// Compiles FILE again without printing messages.
verify::Compiled compile_variant(CompileRequest request, const std::string& text,
                                 const verify::Variant& variant) {
  const auto add = [](std::vector<std::string>& values, const std::vector<std::string>& more) {
    values.insert(values.end(), more.begin(), more.end());
  };
  add(request.sets, variant.sets);
  add(request.watches, variant.watches);
  add(request.watch_diffs, variant.watch_diffs);
  CompileResult result = compile_text(request, text, {.objects = true});
  if (result.errors > 0) return {.problem = first_problem(result.objects)};
  return {.plan = std::move(result.plan)};
}

/// Returns a function that opens one device. Each trial is one process.
verify::OpenDevice opener(const RunOptions& options, bool from_job_file) {
  return [options, from_job_file](const plan::Plan& plan, const plan::Job& job) {
    const exec::Gpu gpu = find_gpu(options);
    const LoadedPlan loaded{.plan = plan, .from_job_file = from_job_file, .entries = {}};
    const RunDevices devices = choose_devices(loaded, job, options, gpu, nullptr);
    if (devices.gpus.size() > 1)
      throw RequestError(fmt::format("{}: job `{}` uses {}; flowrun verify supports one", job.where,
                                     job.name, counted(devices.gpus.size(), "GPU")),
                         "name one GPU in `ids`, with --set");
    return devices.open(gpu);
  };
}

verify::Request request_of(const VerifyOptions& options, LoadedPlan loaded,
                           const CompileRequest& compiled, const fs::path& directory) {
  verify::Request request{.trials = {.job = options.run.job,
                                     .root = options.run.root.value_or(loaded.plan.root),
                                     .directory = directory,
                                     .inputs = inputs_of(options.run),
                                     .load = options.run.load,
                                     .load_partial = options.run.load_partial,
                                     .commands = options.commands,
                                     .open = opener(options.run, loaded.from_job_file),
                                     .stopping = is_stopping},
                          .plan = std::move(loaded.plan),
                          .steps = options.steps,
                          .at = options.at,
                          .file = options.run.file,
                          .flowrun = running_program().string()};
  request.written_op = [entries = loaded.entries[options.run.job]](const std::string& name) {
    const auto entry = std::ranges::find(entries, name, &WrittenEntry::name);
    return entry == entries.end() ? std::string() : entry->op;
  };
  if (loaded.from_job_file)
    request.compile = [compiled, text = read_text(options.run.file)](const auto& variant) {
      return compile_variant(compiled, text, variant);
    };
  return request;
}

/// Prints the lines of the table as soon as each property is checked.
class VerifyTable {
 public:
  explicit VerifyTable(const VerifyOptions& options)
      : quiet_(options.json || options.junit == "-") {}
  void print_lines(const std::string& lines) const {
    if (!quiet_) print(lines);
  }

 private:
  const bool quiet_;
};

VerifyReport check_all(const VerifyOptions& options, verify::Verifier& verifier) {
  const VerifyTable table(options);
  VerifyReport report{.job = options.run.job, .file = options.run.file};
  const auto properties = chosen_properties(options);
  table.print_lines(title_of_results());
  for (const verify::Property* property : properties) {
    report.results.push_back(verifier.check(*property));
    table.print_lines(lines_of(report.results.back()));
  }
  if (options.prove) {
    table.print_lines("\n" + title_of_proofs());
    for (const verify::DamageInfo* damage : chosen_damages(options)) {
      if (!can_notice(properties, damage->kind)) continue;
      report.proofs.push_back(verifier.prove(damage->kind, properties));
      table.print_lines(lines_of(report.proofs.back()));
    }
  }
  table.print_lines(summary_of(report) + "\n");
  return report;
}

/// Throws RequestError unless each kind of damage that the user names, or at least one kind by
/// default, can be noticed.
void require_noticeable(const VerifyOptions& options) {
  const auto properties = chosen_properties(options);
  bool any = false;
  for (const verify::DamageInfo* damage : chosen_damages(options)) {
    if (verify::can_notice(properties, damage->kind)) {
      any = true;
      continue;
    }
    if (options.damages.empty()) continue;
    std::vector<std::string> noticing;
    for (const verify::Property& property : verify::all_properties())
      if (verify::can_notice(std::array{&property}, damage->kind))
        noticing.emplace_back(property.name);
    throw RequestError(
        fmt::format("--damage {}: none of the properties in --only can notice it", damage->name),
        fmt::format("add to --only: {}", join(noticing, " or ")));
  }
  if (!any)
    throw RequestError("--prove: none of the properties in --only can notice any damage",
                       "add `repeat` or `resume` to --only");
}

void require_consistent(const VerifyOptions& options) {
  chosen_properties(options);
  chosen_damages(options);
  if (options.prove) require_noticeable(options);
  if (!options.prove && (options.strict || !options.damages.empty()))
    throw RequestError(fmt::format("{} requires --prove", options.strict ? "--strict" : "--damage"),
                       "add --prove, or omit it");
  check_reports({{"--junit", options.junit}}, {options.run.file});
  if (options.json && options.junit == "-")
    throw RequestError("--json and --junit - both write to standard output",
                       "name a file: --junit FILE");
}

int verify_job(const VerifyOptions& options) {
  require_consistent(options);
  require_file_read_twice(options.run.file);
  const bool gpu = options.run.device != "cpu" && is_gpu_usable(options.run);
  const CompileRequest compiled = compile_request(options.run, gpu);
  auto loaded = load(compiled);
  if (!loaded) return kRequestWrong;
  find_job(loaded->plan, options.run.job);
  const WorkDirectory work("flowrun-verify");
  verify::Verifier verifier(request_of(options, std::move(*loaded), compiled, work.path()));
  const VerifyReport report = check_all(options, verifier);
  if (options.json) print(verify_json(report));
  if (options.junit) write_report_file(*options.junit, verify_junit(report, options.strict));
  return exit_status_of(report, options.strict);
}

}  // namespace

bool asks_to_verify(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1] != kVerifyCommand) return false;
  const std::vector<std::string> words = arguments_in(app, argc, argv);
  std::error_code unknown;
  return words.size() != 2 || (words[1] != "-" && !fs::exists(words[1], unknown));
}

CLI::App* declare_verify(CLI::App& app, VerifyOptions& options) {
  CLI::App* command =
      app.add_subcommand(std::string(kVerifyCommand),
                         "Check that a job computes the same numbers in every way it can run");
  Flags flags(*command);
  flags.argument("JOB", options.run.job, "job to check");
  flags.argument("FILE", options.run.file, "job file or plan");
  flags.group("Checks");
  flags.many("--only", "NAME,...", options.only, "check only these properties")->delimiter(',');
  flags.value("--steps", "N", options.steps, "run this many steps; default: 20");
  flags.value("--at", "N", options.at, "resume, or damage, after step N; default: the middle");
  flags.flag("--commands", options.commands, "start command sinks");
  flags.group("Job");
  add_shaping(flags, options.run);
  flags.group("Damage");
  flags.flag("--prove", options.prove,
             "damage the state of runs, and report which properties notice");
  flags.many("--damage", "KIND,...", options.damages, "with --prove: only these kinds of damage")
      ->delimiter(',');
  flags.flag("--strict", options.strict, "with --prove: fail if damage stays unnoticed");
  flags.group("Reports");
  flags.flag("--json", options.json, "print one JSON object");
  flags.value("--junit", "FILE", options.junit, "write a JUnit report; `-` is standard output");
  command->footer(fmt::format(
      "Runs the job several times for a few steps in a temporary directory. It compares every\n"
      "returned and watched tensor, every variable, optimizer slot and metric bit for bit. Jobs\n"
      "that it calls run once. A property that does not apply prints n/a and the reason.\n"
      "\n"
      "Properties:\n{}"
      "\n"
      "Kinds of damage:\n{}"
      "\n"
      "`flowrun verify FILE` runs the job `verify` of an existing FILE.\n"
      "\n"
      "Exit status:\n"
      "  0   no property differs\n"
      "  1   a property differs; with --strict, also damage that stays unnoticed\n"
      "  2   invalid request or job file\n"
      "  3   a run failed\n"
      "  70  bug in flowrun\n"
      "\n"
      "Examples:\n"
      "  flowrun verify train lenet.yaml\n"
      "  flowrun verify train lenet.yaml --only resume,threads --prove --junit verify.xml",
      list(verify::all_properties()), list(verify::all_damages())));
  return command;
}

int run_verify(const VerifyOptions& options) {
  catch_stop_requests();
  try {
    return verify_job(options);
  } catch (const verify::Interrupted&) {
    end_as_asked();
    throw;
  }
}

}  // namespace flow::cli
