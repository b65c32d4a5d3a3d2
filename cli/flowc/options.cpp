// Declares the flags of flowc's subcommands, and implements what several subcommands share.
#include "cli/flowc/flowc.h"

#include <fmt/format.h>

#include "cli/shared/console.h"
#include "compiler/job/suggest/vocabulary.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

void add_sets(Flags& flags, FlowcOptions& options) {
  flags.many("--set", "PATH=YAML", options.sets,
             "set a value in the job file, as in vars.lr=0.02; repeatable");
}

void add_job(Flags& flags, FlowcOptions& options) {
  flags.value("--job", "J", options.job, "only this job");
}

void add_ema(Flags& flags, FlowcOptions& options) {
  flags.flag("--ema", options.ema, "take averages of variables, where the checkpoint has them");
}

}  // namespace

void declare_check(Flags flags, FlowcOptions& options) {
  flags.argument("FILE", options.files, "job files; `-` is standard input");
  flags.choice("--format", options.format, {"text", "json"},
               "text, or json: an object for each message");
  add_sets(flags, options);
}

void declare_build(Flags flags, FlowcOptions& options) {
  flags.argument("FILE", options.file, "job file; `-` is standard input");
  flags.value("-o,--output", "PLAN", options.output, "plan file; `-` is standard output")
      ->required();
  add_job(flags, options);
  flags.choice("--device", options.device, {"cpu", "gpu"},
               "device to compile for; cpu: place everything there; gpu: place there what FILE "
               "leaves open");
  add_sets(flags, options);
  flags.value("--dump-after", "PASS", options.dump_after,
              "print the graph after this compiler pass");
}

void declare_show(Flags flags, FlowcOptions& options) {
  flags.argument("FILE", options.file, "a job file or a plan");
  add_job(flags, options);
  flags.choice("--format", options.format, {"table", "json", "dot", "svg"},
               "table, json (the plan), dot or svg");
  flags.flag("--all", options.all, "list every copy and every network in full");
  flags.flag("--gradients", options.gradients, "draw the gradients");
  flags.flag("--hooks", options.hooks, "draw hooks and the return");
  flags.flag("--steps", options.steps, "list the steps, variables and outputs of the plan");
  flags.flag("--memory", options.memory, "list memory per tensor over the steps");
  flags.value("--ranks", "N", options.ranks, "list what N ranks of a distributed run hold and send",
              CLI::Range(1, 4096).description(""));
  flags.flag("--commands", options.commands, "list the commands that a run starts");
  add_sets(flags, options);
}

void declare_ops(Flags flags, FlowcOptions& options) {
  flags.optional("NAME", options.op, "op to describe");
}

void declare_diff(Flags flags, FlowcOptions& options) {
  flags.argument("A", options.file, "a job file or a plan");
  flags.argument("B", options.other, "the job file or plan to compare with A");
  add_job(flags, options);
  flags.flag("--values", options.values, "list each value of the plans that differs");
  add_sets(flags, options);
}

void declare_names(Flags flags, FlowcOptions& options) {
  flags.argument("FILE", options.file, "a job file or a plan");
  flags.argument("WEIGHTS", options.weights,
                 "a .safetensors file, a folder with one, an .npz file, a checkpoint or a run; or "
                 "several: of what several have, the last counts");
  add_job(flags, options);
  add_ema(flags, options);
  flags.flag("--json", options.json, "print a JSON object");
  add_sets(flags, options);
}

void declare_export(Flags flags, FlowcOptions& options) {
  flags.argument("FROM", options.checkpoint,
                 "a checkpoint or a run; for NAME.onnx a job file or a plan");
  flags
      .value("-o,--output", "OUT", options.output,
             "new file, NAME.safetensors, NAME.npz or NAME.onnx")
      ->required();
  flags.many("--load", "CKPT", options.load,
             "for NAME.onnx: the variables, as flowrun loads them; repeatable");
  flags.many("--only", "GLOB", options.only, "write only matching variables; repeatable");
  flags.value("--names", "FILE", options.file,
              "job file or plan whose rules for names are turned round: arrays get their "
              "original names");
  add_job(flags, options);
  add_ema(flags, options);
  add_sets(flags, options);
}

void declare_import(Flags flags, FlowcOptions& options) {
  flags.argument("MODEL", options.file, "a model of ONNX");
  flags
      .value("-o,--output", "FILE", options.output,
             "new job file, NAME.yaml; the weights go to NAME.npz")
      ->required();
  flags.many("--dim", "NAME=SIZE", options.dimensions,
             "size of a symbolic dimension of the model, as in sequence=128; repeatable");
}

void declare_data(Flags flags, FlowcOptions& options) {
  flags.argument("FILE", options.file, "job file; `-` is standard input");
  flags.optional("DATASET", options.dataset, "only this dataset");
  flags.choice("--format", options.format, {"table", "json"}, "table or json");
  CLI::Option* output =
      flags.value("-o,--output", "DIR", options.output, "write samples below this folder");
  flags
      .value("--samples", "N", options.samples, "number of rows to write; default: 16",
             CLI::Range(1, 1'000'000).description(""))
      ->needs(output);
  CLI::Option* job =
      flags.value("--job", "J", options.job, "write samples as this train job augments them")
          ->needs(output);
  flags
      .value("--epoch", "E", options.epoch, "epoch of the job; default: 0",
             CLI::Range(0u, 0xffffffffu).description(""))
      ->needs(job);
  add_sets(flags, options);
}

void declare_init(Flags flags, FlowcOptions& options) {
  CLI::Option* name =
      flags.optional("NAME", options.start, "template; default: list the templates");
  flags.value("-o,--output", "FILE", options.output, "job file to write; default: NAME.yaml");
  CLI::Option* from = flags
                          .value("--from", "DATA", options.from,
                                 "write a job for a CSV file, or for a folder of images with a "
                                 "folder for each class")
                          ->excludes(name);
  flags
      .value("--target", "COLUMN", options.target,
             "column of the CSV file to predict; default: the last one")
      ->needs(from);
}

void declare_config(Flags flags, FlowcOptions& options) {
  flags.argument("FILE", options.file, "job file; `-` is standard input");
  CLI::Option* full = flags.flag("--full", options.full, "write out every default");
  flags.flag("--minimal", options.minimal, "write only values that differ from the defaults")
      ->excludes(full);
  flags.value("-o,--output", "FILE", options.output, "output file; default: standard output");
  add_sets(flags, options);
}

void declare_report(Flags flags, FlowcOptions& options) {
  flags.argument("DIR", options.files, "directories that flowrun wrote to, finished or not");
  flags.value("-o,--output", "HTML", options.output, "HTML file; `-` is standard output")
      ->required();
  flags.flag("--force", options.force, "replace a file that is not a report");
  flags.many("--diff", "JSON", options.diffs,
             "add the comparison that flowdiff --json wrote to JSON; repeatable");
}

void declare_schema(Flags flags, FlowcOptions& options) {
  flags.choice("OF", options.schema, {"job", "plan"}, "job (default) or plan")
      ->option_text(" ");  // the description lists the choices
  flags.value("-o,--output", "FILE", options.output, "output file; default: standard output");
}

void declare_explain(Flags flags, FlowcOptions& options) {
  flags.argument("CODE", options.code, "error code, such as E0302");
}

void declare_help(Flags flags, FlowcOptions& options) {
  flags.optional("TOPIC", options.topic, "topic; default: list the topics");
}

void declare_complete(Flags flags, FlowcOptions& options) {
  flags.hide();  // used only by shell completion
  flags.argument("KIND", options.completion.kind, "");
  flags.optional("FILE", options.completion.files, "");
  flags.value("--word", "", options.completion.word, "");
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
