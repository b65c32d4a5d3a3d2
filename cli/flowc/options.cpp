// The flags of flowc's subcommands, and what several of them do.
#include "cli/flowc/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/shared/console.h"
#include "compiler/job/suggest/vocabulary.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

CLI::Option* add_file(CLI::App& app, const char* name, std::string& file, const char* doc) {
  return app.add_option(name, file, doc)->required()->type_name("");
}

void add_sets(CLI::App& app, FlowcOptions& options) {
  repeatable(app.add_option("--set", options.sets,
                            "set a value in the job file, as in vars.lr=0.02; repeatable")
                 ->type_name("PATH=YAML"));
}

void add_job(CLI::App& app, FlowcOptions& options) {
  app.add_option("--job", options.job, "only this job")->type_name("J");
}

void add_ema(CLI::App& app, FlowcOptions& options) {
  app.add_flag("--ema", options.ema, "take averages of variables, where the checkpoint has them");
}

}  // namespace

void declare_check(CLI::App& app, FlowcOptions& options) {
  app.add_option("FILE", options.files, "job files; `-` is standard input")
      ->required()
      ->type_name("");
  app.add_option("--format", options.format, "text, or json: an object for each message")
      ->check(CLI::IsMember({"text", "json"}));
  add_sets(app, options);
}

void declare_build(CLI::App& app, FlowcOptions& options) {
  add_file(app, "FILE", options.file, "job file; `-` is standard input");
  app.add_option("-o,--output", options.output, "plan file; `-` is standard output")
      ->type_name("PLAN")
      ->required();
  add_job(app, options);
  app.add_option("--device", options.device,
                 "device to compile for; cpu: place everything there; gpu: place there what FILE "
                 "leaves open")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  add_sets(app, options);
  app.add_option("--dump-after", options.dump_after, "print the graph after this compiler pass")
      ->type_name("PASS");
}

void declare_show(CLI::App& app, FlowcOptions& options) {
  add_file(app, "FILE", options.file, "a job file or a plan");
  add_job(app, options);
  app.add_option("--format", options.format, "table, json (the plan), dot or svg")
      ->check(CLI::IsMember({"table", "json", "dot", "svg"}));
  app.add_flag("--all", options.all, "list every copy and every network in full");
  app.add_flag("--gradients", options.gradients, "draw the gradients");
  app.add_flag("--hooks", options.hooks, "draw hooks and the return");
  app.add_flag("--steps", options.steps, "list the steps, variables and outputs of the plan");
  app.add_flag("--memory", options.memory, "list memory per tensor over the steps");
  app.add_option("--ranks", options.ranks, "list what N ranks of a distributed run hold and send")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""));
  app.add_flag("--commands", options.commands, "list the commands that a run starts");
  add_sets(app, options);
}

void declare_ops(CLI::App& app, FlowcOptions& options) {
  app.add_option("NAME", options.op, "op to describe")->type_name("");
}

void declare_diff(CLI::App& app, FlowcOptions& options) {
  add_file(app, "A", options.file, "a job file or a plan");
  add_file(app, "B", options.other, "the job file or plan to compare with A");
  add_job(app, options);
  app.add_flag("--values", options.values, "list each value of the plans that differs");
  add_sets(app, options);
}

void declare_names(CLI::App& app, FlowcOptions& options) {
  add_file(app, "FILE", options.file, "a job file or a plan");
  app.add_option("WEIGHTS", options.weights,
                 "a .safetensors file, a folder with one, an .npz file, a checkpoint or a run; or "
                 "several: of what several have, the last counts")
      ->required()
      ->type_name("");
  add_job(app, options);
  add_ema(app, options);
  app.add_flag("--json", options.json, "print a JSON object");
  add_sets(app, options);
}

void declare_export(CLI::App& app, FlowcOptions& options) {
  add_file(app, "FROM", options.checkpoint,
           "a checkpoint or a run; for NAME.onnx a job file or a plan");
  app.add_option("-o,--output", options.output, "new file, NAME.safetensors, NAME.npz or NAME.onnx")
      ->type_name("OUT")
      ->required();
  repeatable(app.add_option("--load", options.load,
                            "for NAME.onnx: the variables, as flowrun loads them; repeatable")
                 ->type_name("CKPT"));
  repeatable(app.add_option("--only", options.only, "write only matching variables; repeatable")
                 ->type_name("GLOB"));
  app.add_option("--names", options.file,
                 "job file or plan whose rules for names are turned round: arrays get their "
                 "original names")
      ->type_name("FILE");
  add_job(app, options);
  add_ema(app, options);
  add_sets(app, options);
}

void declare_import(CLI::App& app, FlowcOptions& options) {
  add_file(app, "MODEL", options.file, "a model of ONNX");
  app.add_option("-o,--output", options.output,
                 "new job file, NAME.yaml; the weights go to NAME.npz")
      ->type_name("FILE")
      ->required();
  repeatable(
      app.add_option("--dim", options.dimensions,
                     "size of a symbolic dimension of the model, as in sequence=128; repeatable")
          ->type_name("NAME=SIZE"));
}

void declare_init(CLI::App& app, FlowcOptions& options) {
  app.add_option("NAME", options.start, "template; default: list the templates")->type_name("");
  app.add_option("-o,--output", options.output, "job file to write; default: NAME.yaml")
      ->type_name("FILE");
}

void declare_config(CLI::App& app, FlowcOptions& options) {
  add_file(app, "FILE", options.file, "job file; `-` is standard input");
  CLI::Option* full = app.add_flag("--full", options.full, "write out every default");
  app.add_flag("--minimal", options.minimal, "write only values that differ from the defaults")
      ->excludes(full);
  app.add_option("-o,--output", options.output, "output file; default: standard output")
      ->type_name("FILE");
  add_sets(app, options);
}

void declare_report(CLI::App& app, FlowcOptions& options) {
  app.add_option("DIR", options.files, "directories that flowrun wrote to, finished or not")
      ->required()
      ->type_name("");
  app.add_option("-o,--output", options.output, "HTML file; `-` is standard output")
      ->type_name("HTML")
      ->required();
  app.add_flag("--force", options.force, "replace a file that is not a report");
  repeatable(app.add_option("--diff", options.diffs,
                            "add the comparison that flowdiff --json wrote to JSON; repeatable")
                 ->type_name("JSON"));
}

void declare_schema(CLI::App& app, FlowcOptions& options) {
  app.add_option("OF", options.schema, "job (default) or plan")
      ->option_text(" ")  // the description lists the choices
      ->check(CLI::IsMember({"job", "plan"}));
  app.add_option("-o,--output", options.output, "output file; default: standard output")
      ->type_name("FILE");
}

void declare_explain(CLI::App& app, FlowcOptions& options) {
  add_file(app, "CODE", options.code, "error code, such as E0302");
}

void declare_help(CLI::App& app, FlowcOptions& options) {
  app.add_option("TOPIC", options.topic, "topic; default: list the topics")->type_name("");
}

void declare_complete(CLI::App& app, FlowcOptions& options) {
  app.group("");  // for completions of shells only
  app.add_option("KIND", options.completion.kind)->required();
  app.add_option("FILE", options.completion.files);
  app.add_option("--word", options.completion.word);
}

CompileRequest request_of(const FlowcOptions& options) {
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

void write_output(const FlowcOptions& options, const std::string& text, Output kind,
                  const std::vector<std::string>& sources) {
  if (options.output == "-") return print(text);
  std::error_code unknown;
  for (const std::string& source : sources)
    if (fs::equivalent(source, options.output, unknown))
      throw RequestError(fmt::format("-o {} would overwrite {}", options.output,
                                     source == options.file ? "the job file"
                                                            : "a file that the job file includes"),
                         "name another file with -o");
  check_output("-o", options.output, kind);
  write_text_atomically(options.output, text);
}

void check_new_file(const fs::path& path) {
  std::error_code unknown;
  if (fs::exists(fs::symlink_status(path, unknown)))
    throw RequestError(fmt::format("{} already exists", path.string()),
                       "write to another file with -o FILE");
  if (const fs::path folder = path.parent_path(); !folder.empty() && !fs::is_directory(folder))
    throw RequestError(fmt::format("no such directory: {}", folder.string()),
                       fmt::format("create it: {}", command_line(std::vector<std::string>{
                                                        "mkdir", "-p", folder.string()})));
}

void write_new_file(const fs::path& path, std::string_view bytes) {
  Replacement fresh(path);
  fresh.file().write(bytes);
  fresh.file().sync();
  fresh.commit();
  Folder(path.parent_path()).sync();
}

RequestError unknown_name(const std::string& what, const std::string& name,
                          const std::vector<std::string>& names, const std::string& otherwise) {
  if (const auto advice = job::advice_on(name, names); !advice.empty())
    return RequestError(what, std::string(advice));
  const std::vector<std::string> near = job::meant_by(name, names);
  return RequestError(what, near.empty() ? otherwise : fmt::format("did you mean `{}`?", near[0]));
}

}  // namespace flow::cli
