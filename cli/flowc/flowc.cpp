// flowc checks job files and compiles them to plans.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/flowc/flowc.h"
#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "compiler/diag/diag.h"
#include "compiler/ir/describe_ops.h"
#include "compiler/job/tables/tables.h"
#include "compiler/passes/pipeline.h"
#include "compiler/schema/schema.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/variable_sharing.h"
#include "runtime/plan/serialize.h"

namespace flow::cli {
namespace {

/// Prints one JSON object per line on standard output. Returns true if there are no errors.
bool check_as_json(const CompileRequest& request) {
  const CompileResult result = compile_text(request, read_job_file(request), {.objects = true});
  for (const OrderedJson& object : result.objects) print(json_line(object));
  return result.errors == 0;
}

bool check_aloud(const CompileRequest& request) {
  const auto result = compile_aloud(request);
  if (result)
    print(fmt::format("{}: ok, {}\n", escaped(request.file),
                      counted(result->plan->jobs.size(), "job")));
  return result.has_value();
}

int check(const FlowcOptions& options) {
  const bool json = options.format == "json";
  int status = kDone;
  for (const std::string& file : options.files) {
    CompileRequest request = request_of(options);
    request.file = file;
    try {
      if (json ? check_as_json(request) : check_aloud(request)) continue;
    } catch (const RunError& error) {  // the other files are still checked
      if (json)
        print(json_line(unplaced_error(file, error.what(), error.hint())));
      else
        print_error("flowc", error.what(), error.hint());
      status = std::max(status, error.exit_status());
    }
    status = std::max<int>(status, kRequestWrong);
  }
  return status;
}

void check_pass(const std::string& name) {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::pipeline()) names.emplace_back(pass.name);
  if (name.empty() || std::ranges::count(names, name) > 0) return;
  throw unknown_name(fmt::format("--dump-after: unknown pass `{}`", name), name, names,
                     "use one of " + join(names, ", "));
}

/// Returns "cpu (for a GPU, use --device gpu)" or "cpu and gpu". `asked` is the value of --device.
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

int build(const FlowcOptions& options) {
  check_pass(options.dump_after);
  const auto result = compile_aloud(request_of(options));
  if (!result) return kRequestWrong;
  write_output(options, plan::to_json(*result->plan), Output::kPlan, result->sources);
  print_to_stderr(fmt::format("{}: jobs {} for {}\n", escaped(options.output),
                              job_names(*result->plan), devices_of(*result->plan, options.device)));
  return kDone;
}

int explain(const FlowcOptions& options) {
  std::string code = options.code;
  if (code.starts_with('[') && code.ends_with(']')) code = code.substr(1, code.size() - 2);
  const DiagnosisInfo* info = find_diagnosis(code);
  if (!info)
    throw RequestError(fmt::format("unknown code `{}`", options.code),
                       "copy the code from the end of a message: [E0302]");
  print(fmt::format("{}: {}\n\n{}\n", info->code, info->title, info->explanation));
  return kDone;
}

int show_ops(const FlowcOptions& options) {
  if (options.op.empty()) {
    print_folded(list_ops());
    return kDone;
  }
  const ops::OpSpec* op = ops::find_written_spec(options.op);
  if (!op) {
    std::vector<std::string> names;
    for (const ops::OpSpec* other : ops::written_specs()) names.emplace_back(other->name);
    throw unknown_name(fmt::format("unknown op `{}`", options.op), options.op, names,
                       "list the ops with `flowc ops`");
  }
  print_folded(job::describe_call(*op));
  return kDone;
}

/// Writes the text to standard output, or to the file that `-o` names.
void deliver(const FlowcOptions& options, const std::string& text, Output kind,
             const std::vector<std::string>& sources = {}) {
  if (options.output.empty())
    print(text);
  else
    write_output(options, text, kind, sources);
}

int config(const FlowcOptions& options) {
  CompileRequest request = request_of(options);
  request.writing = options.full      ? Writing::kFull
                    : options.minimal ? Writing::kMinimal
                                      : Writing::kResolved;
  const auto result = compile_aloud(request);
  if (!result) return kRequestWrong;
  deliver(options, result->job_file, Output::kJobFile, result->sources);
  return kDone;
}

int write_schema(const FlowcOptions& options) {
  deliver(options, options.schema == "plan" ? plan_schema() : job_schema(), Output::kReport);
  return kDone;
}

/// Returns the command that describes the given name, or an empty string if nothing has this name.
std::string command_about(const FlowcOptions& options) {
  const std::string& name = options.topic;
  if (std::ranges::count(options.command_names, name) > 0) return name + " --help";
  if (ops::find_written_spec(name)) return "ops " + name;
  return find_diagnosis(name) ? "explain " + name : "";
}

RequestError unknown_topic(const FlowcOptions& options) {
  const std::string what = fmt::format("unknown topic `{}`", options.topic);
  if (const std::string command = command_about(options); !command.empty())
    return RequestError(what, fmt::format("run `flowc {}`", command));
  return unknown_name(what, options.topic, topic_names(), "run `flowc help` to list the topics");
}

int help(const FlowcOptions& options) {
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

int complete(const FlowcOptions& options) {
  print(completions_of(options.completion));
  return kDone;
}

struct Subcommand {
  const char *name, *doc;
  int (*run)(const FlowcOptions&);
  void (*declare)(Flags, FlowcOptions&);
  const char* footer;
};

constexpr Subcommand kSubcommands[] = {
    {"check", "Check all jobs of each file and report every error; read no data", check,
     declare_check,
     "--format json prints an object per line for each error and warning, to standard output. Its "
     "keys are severity, code, file, line, column, end_line, end_column, message, notes, hints and "
     "related. All of them are always there; those of a place can be null.\n"
     "\nExit status: 0 no errors; 2 errors, or no such file; 3 a file cannot be read.\n"
     "\nExamples:\n  flowc check jobs/*.yaml\n  flowc check jobs/lenet.yaml --set vars.lr=0.05"},
    {"build", "Compile a job file to a plan that flowrun executes", build, declare_build,
     "Example:\n  flowc build jobs/lenet.yaml -o lenet.plan"},
    {"show", "List what each job computes and costs", show_file, declare_show,
     "By default: a line for each entry of the job's graph, and the job's totals. Equal copies "
     "share a line, \"x 3\", which counts all of them. FLOPs are those of the forward pass; a "
     "multiplication with its addition counts as two. Bytes are the size of the output.\n"
     "\nExamples:\n  flowc show jobs/lenet.yaml --job train\n  flowc show jobs/lenet.yaml --job "
     "train --format svg > lenet.svg"},
    {"ops", "List all ops, or describe one", show_ops, declare_ops,
     "Examples:\n  flowc ops\n  flowc ops conv2d"},
    {"diff", "Compare two job files or plans", diff_files, declare_diff,
     "Lists entries that are added, removed or changed, and changes of parameters, FLOPs, memory, "
     "optimizer, schedule and run. --set changes both.\n"
     "\nExit status: 0 equivalent; 1 different; 2 one is invalid or missing; 3 one cannot be "
     "read.\n"
     "\nExample:\n  flowc diff jobs/lenet.yaml runs/lenet-train-001/plan.json --job train"},
    {"names", "Show which arrays of a weights file become which variables", list_names,
     declare_names,
     "Lists each variable with the array that it gets by name, or by the rules in `names` of the "
     "job's checkpoint section. `!` marks what does not match. For the rest it proposes rules as "
     "YAML.\n"
     "\nExit status: 0 a run can load the file; 1 something does not match; 2 one is invalid or "
     "missing; 3 one cannot be read.\n"
     "\nExample:\n  flowc names jobs/gpt2.yaml gpt2/model.safetensors --job train"},
    {"export", "Write weights or a model for other programs", export_weights, declare_export,
     "Of a checkpoint, writes all variables without the state of the optimizer. "
     "With --names, the rules are applied in reverse: transposed back, joined again, or split. Of "
     "a job file, writes a predict job with its variables as a model of ONNX. OUT must not exist "
     "yet.\n"
     "\nExamples:\n  flowc export runs/lenet-train-001 -o lenet.safetensors\n  flowc export run "
     "-o model.safetensors --names jobs/gpt2.yaml --job train\n  flowc export jobs/lenet.yaml "
     "--job eval --load runs/lenet-train-001 -o lenet.onnx"},
    {"import", "Write a model of ONNX as a job file, and its weights", import_onnx, declare_import,
     "The job file has a predict job with the graph of the model; flowrun runs it as it is. Sizes "
     "of "
     "the first axis without a number become 1, as `vars.batch`. Where flow lacks operators of the "
     "model, all of them are listed.\n"
     "\nExit status: 0 success; 2 the model is damaged or cannot be a job; 3 it cannot be read.\n"
     "\nExample:\n  flowc import resnet18.onnx -o resnet18.yaml"},
    {"data", "Read datasets, and list what they contain and which rows are bad", summarize_data,
     declare_data,
     "Reads all files of the datasets. By default, prints a line for each column. It shows "
     "missing values, the range of numbers before `scale`, the number of rows of each category, "
     "and the sizes of "
     "images. With -o, also writes the first rows of columns of images and texts as "
     "DIR/DATASET/COLUMN/000000.png or .txt.\n"
     "\nExit status: 0 all rows are good; 1 there are bad rows; 2 invalid request or job file; 3 "
     "data cannot be read.\n"
     "\nExamples:\n  flowc data pets.yaml\n  flowc data pets.yaml pets -o samples --job train"},
    {"init", "Write a commented job file to start from", init_job_file, declare_init,
     "flowc init also writes job.schema.json next to the file; editors use it for completion.\n"
     "With --from, it examines the data and writes jobs that train, evaluate and predict.\n"
     "\nExamples:\n  flowc init\n  flowc init lenet\n  flowc init --from houses.csv --target "
     "price\n  flowc init --from pets"},
    {"config", "Print the job file with includes and variables resolved", config, declare_config,
     "The output is a job file with the same plan, without comments. Its paths stay relative "
     "to the directory of FILE.\n"
     "\nExample:\n  flowc config jobs/lenet.yaml --full --set vars.lr=0.05"},
    {"report", "Write runs as one HTML page, with plots and pictures", write_report, declare_report,
     "The page needs no server and no network. Several runs are compared: settings that differ, "
     "and their metrics in one plot each. Comparisons that flowdiff --json wrote to DIR are in the "
     "page, too.\n"
     "\nExit status: 0 success; 2 no such run; 3 a file cannot be read or written.\n"
     "\nExamples:\n  flowc report runs/lenet-train-001 -o lenet.html\n  flowc report runs/lr-* -o "
     "sweep.html"},
    {"schema", "Print the JSON Schema of job files or plans, for editors", write_schema,
     declare_schema,
     "A job file names its schema in the first line:\n  # yaml-language-server: "
     "$schema=job.schema.json\n\nExample:\n  flowc schema -o job.schema.json"},
    {"explain", "Explain an error code", explain, declare_explain,
     "Example:\n  flowc explain E0302"},
    {"help", "Show a guide or a part of the reference", help, declare_help,
     "Examples:\n  flowc help\n  flowc help checkpoints"},
    {"complete", "Print completions of a command line", complete, declare_complete, ""},
};

void declare(CLI::App& app, FlowcOptions& options) {
  configure(app, "flowc");
  app.require_subcommand(1);
  app.footer(
      "Exit status:\n"
      "  0   success\n"
      "  1   the plans differ (flowc diff), names do not match (flowc names), or rows are bad "
      "(flowc "
      "data)\n"
      "  2   invalid request or job file, or no such file\n"
      "  3   a file cannot be read or written\n"
      "  70  bug in flowc\n"
      "\n"
      "Examples:\n"
      "  flowc check jobs/lenet.yaml\n"
      "  flowc COMMAND --help");
  for (const Subcommand& each : kSubcommands) {
    CLI::App* command = app.add_subcommand(each.name, each.doc)->group("Commands");
    each.declare(Flags(*command->footer(each.footer)), options);
    if (!command->get_group().empty()) options.command_names.emplace_back(each.name);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Check YAML job files and compile them to plans that flowrun executes.", "flowc");
  FlowcOptions options;
  declare(app, options);
  if (const int status = parse(app, argc, argv); status >= 0) return status;
  const auto given = [&](const Subcommand& each) { return app.got_subcommand(each.name); };
  // The parser requires a subcommand, so one is found.
  return std::ranges::find_if(kSubcommands, given)->run(options);
}

}  // namespace
}  // namespace flow::cli

int main(int argc, char** argv) {
  return flow::cli::guarded("flowc", [&] { return flow::cli::run(argc, argv); });
}
