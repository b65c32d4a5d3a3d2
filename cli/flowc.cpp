// flowc: checks job files and compiles them to plans.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/complete.h"
#include "cli/console.h"
#include "cli/help_topics.h"
#include "cli/installed.h"
#include "cli/job_diff.h"
#include "cli/job_source.h"
#include "cli/picture.h"
#include "cli/show_job.h"
#include "cli/show_memory.h"
#include "cli/show_plan.h"
#include "cli/show_ranks.h"
#include "cli/templates.h"
#include "cli/written_entries.h"
#include "compiler/compile.h"
#include "compiler/complete.h"
#include "compiler/describe_ops.h"
#include "compiler/diag/diag.h"
#include "compiler/job/suggest/vocabulary.h"
#include "compiler/job/tables/describe_call.h"
#include "compiler/passes/pipeline.h"
#include "compiler/schema/schema.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/serialize.h"
#include "runtime/plan/model/difference.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string file, output, device, format = "table", code, op, other, start;
  std::string job, dump_after, schema = "job", topic;
  CompletionRequest completion;
  std::vector<std::string> sets, command_names;
  bool commands = false, memory = false, steps = false, all = false;  // of `show`
  int ranks = 0;                                                      // of `show`
  bool gradients = false, hooks = false, values = false;
  bool full = false, minimal = false;
};

CompileRequest request_of(const Options& options) {
  CompileRequest request;
  request.file = options.file;
  request.sets = options.sets;
  if (!options.job.empty()) request.job = options.job;
  request.dump_after = options.dump_after;
  if (!options.device.empty()) {
    request.target.device =
        options.device == "gpu" ? plan::DeviceKind::kGpu : plan::DeviceKind::kCpu;
    request.target.forced = true;
  }
  return request;
}

int check(const Options& options) {
  int status = kDone;
  for (const std::string& file : options.files) {
    CompileRequest request = request_of(options);
    request.file = file;
    try {
      if (const auto result = compile_aloud(request)) {
        print(
            fmt::format("{}: ok, {}\n", escaped(file), counted(result->plan->jobs.size(), "job")));
        continue;
      }
    } catch (const RunError& error) {  // the other files are checked all the same
      print_error("flowc", error.what(), error.hint());
      status = std::max(status, error.exit_status());
    }
    status = std::max<int>(status, kRequestWrong);
  }
  return status;
}

/// Writes where `-o` says (`-` is standard output), which is none of the files that the text was
/// made from.
void write_output(const Options& options, const std::string& text,
                  const std::vector<std::string>& sources) {
  if (options.output == "-") return print(text);
  std::error_code unknown;
  for (const std::string& source : sources)
    if (fs::equivalent(source, options.output, unknown))
      throw RequestError(fmt::format("-o {} would overwrite {}", options.output,
                                     source == options.file ? "the job file"
                                                            : "a file that the job file includes"),
                         "name another file with -o");
  write_text_atomically(options.output, text);
}

/// Of a name that is not among those there are; `otherwise`: the hint where none is like it.
RequestError unknown(const std::string& what, const std::string& name,
                     const std::vector<std::string>& names, const std::string& otherwise) {
  if (const auto advice = job::advice_on(name, names); !advice.empty())
    return RequestError(what, std::string(advice));
  const std::vector<std::string> near = job::meant_by(name, names);
  return RequestError(what, near.empty() ? otherwise : fmt::format("did you mean `{}`?", near[0]));
}

void check_pass(const std::string& name) {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::pipeline()) names.emplace_back(pass.name);
  if (name.empty() || std::ranges::count(names, name) > 0) return;
  throw unknown(fmt::format("--dump-after: unknown pass `{}`", name), name, names,
                "use one of " + join(names, ", "));
}

/// "cpu (for a GPU, use --device gpu)", "cpu and gpu"; `asked`: the --device that was given.
std::string devices_of(const plan::Plan& plan, const std::string& asked) {
  const auto any = [&](plan::DeviceKind device) {
    return std::ranges::any_of(plan.jobs, [&](const plan::Job& job) {
      return job.device == device || plan::needs_two_devices(plan, job);
    });
  };
  if (!any(plan::DeviceKind::kGpu))
    return asked.empty()    ? "cpu (for a GPU, use --device gpu)"
           : asked == "gpu" ? "cpu (set by the job file)"
                            : "cpu";
  return any(plan::DeviceKind::kCpu) ? "cpu and gpu" : "gpu";
}

int build(const Options& options) {
  check_pass(options.dump_after);
  const auto result = compile_aloud(request_of(options));
  if (!result) return kRequestWrong;
  write_output(options, plan::to_json(*result->plan), result->sources);
  print_to_stderr(fmt::format("{}: jobs {} for {}\n", escaped(options.output),
                              job_names(*result->plan), devices_of(*result->plan, options.device)));
  return kDone;
}

/// The option that asks for a table other than the usual one.
std::optional<std::string> view_of(const Options& options) {
  std::optional<std::string> view;
  for (const auto& [given, name] : {std::pair{options.steps, "--steps"},
                                    {options.memory, "--memory"},
                                    {options.ranks > 0, "--ranks"},
                                    {options.commands, "--commands"},
                                    {options.all, "--all"}})
    if (given && view)
      throw RequestError(fmt::format("{} and {}: expected one of them", *view, name),
                         "run `flowc show` once for each");
    else if (given)
      view = name;
  return view;
}

/// The job's entries as its author wrote them, or as its plan shows them.
std::vector<WrittenEntry> entries_of(const LoadedPlan& loaded, const plan::Job& job) {
  const auto written = loaded.entries.find(job.name);
  return written == loaded.entries.end() ? entries_of_plan(job) : written->second;
}

std::string show_text(const LoadedPlan& loaded, const plan::Job& job, const Options& options) {
  if (options.steps) return show_steps(job);
  if (options.commands) return show_commands(job);
  if (options.memory) return show_memory(job);
  if (options.ranks > 0) return show_ranks(job, options.ranks);
  return show_job(job, entries_of(loaded, job), loaded.plan.source, options.all);
}

/// A picture is of one job.
int draw(const LoadedPlan& loaded, const Options& options) {
  const plan::Plan& plan = loaded.plan;
  if (plan.jobs.size() > 1)
    throw RequestError(
        fmt::format("--format {} draws one job; the file has {}", options.format, plan.jobs.size()),
        fmt::format("name one with --job: {}", job_names(plan)));
  const plan::Job& job = plan.jobs[0];
  const Picture picture =
      picture_of(job, tree_of(job, entries_of(loaded, job)),
                 {.gradients = options.gradients, .hooks = options.hooks, .all = options.all});
  print(options.format == "dot" ? to_dot(picture) : to_svg(picture));
  return kDone;
}

/// The job of that name; for a whole plan, with those that it calls.
std::vector<plan::Job> chosen_jobs(const plan::Plan& plan, const std::string& name, bool whole) {
  std::vector<plan::Job> chosen = {find_job(plan, name)};
  for (size_t i = 0; whole && i < chosen.size(); ++i)
    for (const plan::Job* called : plan::sub_jobs_of(plan, chosen[i]))
      if (std::ranges::count(chosen, called->name, &plan::Job::name) == 0)
        chosen.push_back(*called);
  return chosen;
}

int show(const Options& options) {
  const auto view = view_of(options);
  const bool drawn = options.format == "dot" || options.format == "svg";
  if ((options.gradients || options.hooks) && !drawn)
    throw RequestError(fmt::format("--{} is for pictures, not for --format {}",
                                   options.gradients ? "gradients" : "hooks", options.format),
                       "add --format svg or --format dot");
  if (view && options.format != "table" && !(drawn && options.all))
    throw RequestError(
        fmt::format("{} prints a table; --format {} does not have it", *view, options.format),
        options.memory ? "use `flowrun --dry-run --json` for the memory of a run"
                       : "use `--format json` for the whole plan");
  auto loaded = load(request_of(options));
  if (!loaded) return kRequestWrong;
  plan::Plan& plan = loaded->plan;
  if (!options.job.empty()) plan.jobs = chosen_jobs(plan, options.job, options.format == "json");
  if (options.format == "json") {
    print(plan::to_json(plan));
    return kDone;
  }
  if (options.format != "table") return draw(*loaded, options);
  for (size_t i = 0; i < plan.jobs.size(); ++i)
    print(fmt::format("{}{}", i ? "\n" : "", show_text(*loaded, plan.jobs[i], options)));
  return kDone;
}

int explain(const Options& options) {
  std::string code = options.code;
  if (code.starts_with('[') && code.ends_with(']')) code = code.substr(1, code.size() - 2);
  const DiagnosisInfo* info = find_diagnosis(code);
  if (!info)
    throw RequestError(fmt::format("unknown code `{}`", options.code),
                       "copy the code from the end of a message: [E0302]");
  print(fmt::format("{}: {}\n\n{}\n", info->code, info->title, info->explanation));
  return kDone;
}

int show_ops(const Options& options) {
  if (options.op.empty()) {
    print_folded(list_ops());
    return kDone;
  }
  const ops::OpSpec* op = ops::find_written_spec(options.op);
  if (!op) {
    std::vector<std::string> names;
    for (const ops::OpSpec* other : ops::written_specs()) names.emplace_back(other->name);
    throw unknown(fmt::format("unknown op `{}`", options.op), options.op, names,
                  "list the ops with `flowc ops`");
  }
  print_folded(job::describe_call(*op));
  return kDone;
}

/// Writes to standard output, unless `-o` names a file.
void deliver(const Options& options, const std::string& text,
             const std::vector<std::string>& sources = {}) {
  if (options.output.empty())
    print(text);
  else
    write_output(options, text, sources);
}

int config(const Options& options) {
  CompileRequest request = request_of(options);
  request.writing = options.full      ? Writing::kFull
                    : options.minimal ? Writing::kMinimal
                                      : Writing::kResolved;
  const auto result = compile_aloud(request);
  if (!result) return kRequestWrong;
  deliver(options, result->job_file, result->sources);
  return kDone;
}

int write_schema(const Options& options) {
  deliver(options, options.schema == "plan" ? plan_schema() : job_schema());
  return kDone;
}

/// The job of that name, or null.
const plan::Job* job_of(const plan::Plan& plan, const std::string& name) {
  const auto job = std::ranges::find(plan.jobs, name, &plan::Job::name);
  return job == plan.jobs.end() ? nullptr : &*job;
}

/// What differs, job by job. A plan does not have all that a job file says of entries.
void print_diff(const LoadedPlan& a, const LoadedPlan& b,
                const std::vector<plan::Difference>& found) {
  const auto written = [&](const LoadedPlan& loaded, const plan::Job& job) {
    return WrittenJob{
        job, a.from_job_file && b.from_job_file ? entries_of(loaded, job) : entries_of_plan(job)};
  };
  std::map<std::string, std::vector<plan::Difference>> of_job;
  for (const plan::Difference& difference : found) {
    const size_t dot = difference.path.find('.');
    if (dot != difference.path.npos)
      of_job[difference.path.substr(0, dot)].push_back(
          {difference.path.substr(dot + 1), difference.a, difference.b});
  }
  for (const plan::Job& job : a.plan.jobs) {
    const plan::Job* other = job_of(b.plan, job.name);
    if (!other)
      print(fmt::format("job {}: removed\n", escaped(job.name)));
    else if (const auto& differs = of_job[job.name]; !differs.empty())
      print(fmt::format("job {}\n{}", escaped(job.name),
                        diff_text(written(a, job), written(b, *other), differs)));
  }
  for (const plan::Job& job : b.plan.jobs)
    if (!job_of(a.plan, job.name)) print(fmt::format("job {}: added\n", escaped(job.name)));
}

/// Exits with 1 where the plans differ.
int diff(const Options& options) {
  CompileRequest request = request_of(options);
  auto a = load(request);
  if (!a) return kRequestWrong;
  request.file = options.other;
  auto b = load(request);
  if (!b) return kRequestWrong;
  if (!options.job.empty())
    for (plan::Plan* plan : {&a->plan, &b->plan})
      plan->jobs = chosen_jobs(*plan, options.job, true);
  const std::vector<plan::Difference> found = plan::differences(a->plan, b->plan);
  if (found.empty()) {
    print("the plans are equivalent\n");
    return kDone;
  }
  if (options.values)
    print(list_values(found));
  else
    print_diff(*a, *b, found);
  print(fmt::format("{} in the plans{}\n", counted(found.size(), "difference"),
                    options.values ? "" : "; --values lists each of them"));
  return kCheckFailed;
}

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
  throw unknown(fmt::format("unknown template `{}`", name), name, names,
                "run `flowc init` to list them");
}

void check_new_file(const fs::path& path) {
  if (fs::exists(path))
    throw RequestError(fmt::format("{} already exists", path.string()),
                       "write to another file with -o FILE");
  if (const fs::path folder = path.parent_path(); !folder.empty() && !fs::is_directory(folder))
    throw RequestError(fmt::format("no such directory: {}", folder.string()),
                       fmt::format("create it: {}", command_line(std::vector<std::string>{
                                                        "mkdir", "-p", folder.string()})));
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

int init(const Options& options) {
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

/// The command that describes what is called so; empty where nothing is.
std::string command_about(const Options& options) {
  const std::string& name = options.topic;
  if (std::ranges::count(options.command_names, name) > 0) return name + " --help";
  if (ops::find_written_spec(name)) return "ops " + name;
  return find_diagnosis(name) ? "explain " + name : "";
}

RequestError unknown_topic(const Options& options) {
  const std::string what = fmt::format("unknown topic `{}`", options.topic);
  if (const std::string command = command_about(options); !command.empty())
    return RequestError(what, fmt::format("run `flowc {}`", command));
  return unknown(what, options.topic, topic_names(), "run `flowc help` to list the topics");
}

int help(const Options& options) {
  const auto columns = static_cast<size_t>(columns_of(stdout));
  if (options.topic.empty()) {
    print(list_topics(columns));
    return kDone;
  }
  const std::string text = topic_text(options.topic, columns, wants_color(stdout));
  if (text.empty()) throw unknown_topic(options);
  print_painted(text);
  return kDone;
}

int complete(const Options& options) {
  print(completions_of(options.completion));
  return kDone;
}

/// The subcommands, and what each does.
using Commands = std::vector<std::pair<CLI::App*, int (*)(const Options&)>>;

Commands declare(CLI::App& app, Options& options) {
  configure(app, "flowc");
  app.require_subcommand(1);
  app.footer(
      "Exit status:\n"
      "  0   success\n"
      "  1   the plans differ (flowc diff)\n"
      "  2   invalid request or job file, or no such file\n"
      "  3   a file cannot be read or written\n"
      "  70  bug in flowc\n"
      "\n"
      "Examples:\n"
      "  flowc check jobs/lenet.yaml\n"
      "  flowc COMMAND --help");
  Commands commands;
  const auto add = [&](const char* name, const char* doc, int (*does)(const Options&),
                       const char* footer) {
    CLI::App* command = app.add_subcommand(name, doc)->group("Commands")->footer(footer);
    return commands.emplace_back(command, does).first;
  };
  const auto add_sets = [&options](CLI::App* command) {
    command
        ->add_option("--set", options.sets,
                     "set a value in the job file, as in vars.lr=0.02; repeatable")
        ->type_name("PATH=YAML")
        ->expected(1)
        ->take_all();
  };

  CLI::App* checks = add(
      "check", "Check all jobs of each file and report every error; read no data", check,
      "Exit status: 0 no errors; 2 errors, or no such file; 3 a file cannot be read.\n"
      "\nExamples:\n  flowc check jobs/*.yaml\n  flowc check jobs/lenet.yaml --set vars.lr=0.05");
  checks->add_option("FILE", options.files, "job files; `-` is standard input")
      ->required()
      ->type_name("");
  add_sets(checks);

  CLI::App* builds = add("build", "Compile a job file to a plan that flowrun executes", build,
                         "Example:\n  flowc build jobs/lenet.yaml -o lenet.plan");
  builds->add_option("FILE", options.file, "job file; `-` is standard input")
      ->required()
      ->type_name("");
  builds->add_option("-o,--output", options.output, "plan file; `-` is standard output")
      ->type_name("PLAN")
      ->required();
  builds->add_option("--job", options.job, "only this job")->type_name("J");
  builds
      ->add_option("--device", options.device,
                   "device to compile for; cpu: place everything there; gpu: place there what FILE "
                   "leaves open")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  add_sets(builds);
  builds->add_option("--dump-after", options.dump_after, "print the graph after this compiler pass")
      ->type_name("PASS");

  CLI::App* shows = add(
      "show", "List what each job computes and costs", show,
      "By default: a line for each entry of the job's graph, and the job's totals. Equal copies "
      "share a line, \"x 3\", which counts all of them. FLOPs are those of the forward pass; a "
      "multiplication with its addition counts as two. Bytes are the size of the output.\n"
      "\nExamples:\n  flowc show jobs/lenet.yaml --job train\n  flowc show jobs/lenet.yaml --job "
      "train --format svg > lenet.svg");
  shows->add_option("FILE", options.file, "a job file or a plan")->required()->type_name("");
  shows->add_option("--job", options.job, "only this job")->type_name("J");
  shows->add_option("--format", options.format, "table, json (the plan), dot or svg")
      ->check(CLI::IsMember({"table", "json", "dot", "svg"}));
  shows->add_flag("--all", options.all, "list every copy and every network in full");
  shows->add_flag("--gradients", options.gradients, "draw the gradients");
  shows->add_flag("--hooks", options.hooks, "draw hooks and the return");
  shows->add_flag("--steps", options.steps, "list the steps, variables and outputs of the plan");
  shows->add_flag("--memory", options.memory, "list memory per tensor over the steps");
  shows
      ->add_option("--ranks", options.ranks, "list what N ranks of a distributed run hold and send")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""));
  shows->add_flag("--commands", options.commands, "list the commands that a run starts");
  add_sets(shows);

  CLI::App* ops = add("ops", "List all ops, or describe one", show_ops,
                      "Examples:\n  flowc ops\n  flowc ops conv2d");
  ops->add_option("NAME", options.op, "op to describe")->type_name("");

  CLI::App* diffs = add(
      "diff", "Compare two job files or plans", diff,
      "Lists entries that are added, removed or changed, and changes of parameters, FLOPs, memory, "
      "optimizer, schedule and run. --set changes both.\n"
      "\nExit status: 0 equivalent; 1 different; 2 one is invalid or missing; 3 one cannot be "
      "read.\n"
      "\nExample:\n  flowc diff jobs/lenet.yaml runs/lenet-train-001/plan.json --job train");
  diffs->add_option("A", options.file, "a job file or a plan")->required()->type_name("");
  diffs->add_option("B", options.other, "the job file or plan to compare with A")
      ->required()
      ->type_name("");
  diffs->add_option("--job", options.job, "only this job")->type_name("J");
  diffs->add_flag("--values", options.values, "list each value of the plans that differs");
  add_sets(diffs);

  CLI::App* inits = add(
      "init", "Write a commented job file to start from", init,
      "flowc init also writes job.schema.json next to the file; editors use it for completion.\n"
      "\nExamples:\n  flowc init\n  flowc init lenet");
  inits->add_option("NAME", options.start, "template; default: list the templates")->type_name("");
  inits->add_option("-o,--output", options.output, "job file to write; default: NAME.yaml")
      ->type_name("FILE");

  CLI::App* configs =
      add("config", "Print the job file with includes and variables resolved", config,
          "The output is a job file with the same plan, without comments. Its paths stay relative "
          "to the directory of FILE.\n"
          "\nExample:\n  flowc config jobs/lenet.yaml --full --set vars.lr=0.05");
  configs->add_option("FILE", options.file, "job file; `-` is standard input")
      ->required()
      ->type_name("");
  CLI::Option* full = configs->add_flag("--full", options.full, "write out every default");
  configs->add_flag("--minimal", options.minimal, "write only values that differ from the defaults")
      ->excludes(full);
  configs->add_option("-o,--output", options.output, "output file; default: standard output")
      ->type_name("FILE");
  add_sets(configs);

  CLI::App* schemas =
      add("schema", "Print the JSON Schema of job files or plans, for editors", write_schema,
          "A job file names its schema in the first line:\n  # yaml-language-server: "
          "$schema=job.schema.json\n\nExample:\n  flowc schema -o job.schema.json");
  schemas->add_option("OF", options.schema, "job (default) or plan")
      ->option_text(" ")  // the description lists the choices
      ->check(CLI::IsMember({"job", "plan"}));
  schemas->add_option("-o,--output", options.output, "output file; default: standard output")
      ->type_name("FILE");

  CLI::App* explains =
      add("explain", "Explain an error code", explain, "Example:\n  flowc explain E0302");
  explains->add_option("CODE", options.code, "error code, such as E0302")
      ->required()
      ->type_name("");

  CLI::App* helps = add("help", "Show a guide or a part of the reference", help,
                        "Examples:\n  flowc help\n  flowc help checkpoints");
  helps->add_option("TOPIC", options.topic, "topic; default: list the topics")->type_name("");

  // For completions of shells only.
  CLI::App* completes = add("complete", "Print completions of a command line", complete, "");
  completes->group("");
  completes->add_option("KIND", options.completion.kind)->required();
  completes->add_option("FILE", options.completion.files);
  completes->add_option("--word", options.completion.word);

  for (const auto& [command, does] : commands)
    if (command != completes) options.command_names.push_back(command->get_name());
  return commands;
}

int run(int argc, char** argv) {
  CLI::App app("Check YAML job files and compile them to plans that flowrun executes.", "flowc");
  Options options;
  const Commands commands = declare(app, options);
  if (const int status = parse(app, argc, argv); status >= 0) return status;
  const auto given = [](const auto& command) { return command.first->parsed(); };
  return std::ranges::find_if(commands, given)->second(options);  // the parser requires one
}

}  // namespace
}  // namespace flow::cli

int main(int argc, char** argv) {
  return flow::cli::guarded("flowc", [&] { return flow::cli::run(argc, argv); });
}
