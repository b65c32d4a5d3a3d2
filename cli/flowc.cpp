// flowc: checks job files and compiles them to plans.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/job_source.h"
#include "cli/show_plan.h"
#include "compiler/compile.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/plan/serialize.h"

namespace flow::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string file, output, device, format = "table", code;
  std::string job, dump_after;
  std::vector<std::string> sets;
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
  size_t errors = 0;
  for (const std::string& file : options.files) {
    CompileRequest request;
    request.file = file;
    request.sets = options.sets;
    const CompileResult result = compile(request, wants_color(stderr));
    fmt::print(stderr, "{}", result.messages);
    errors += result.errors;
    if (result.errors > 0)
      fmt::print(stderr, "{}: {} error{}\n", file, result.errors, result.errors == 1 ? "" : "s");
    else
      fmt::print("{}: ok, {} job{}\n", file, result.plan->jobs.size(),
                 result.plan->jobs.size() == 1 ? "" : "s");
  }
  return errors > 0 ? kRequestWrong : kDone;
}

int build(const Options& options) {
  const CompileRequest request = request_of(options);
  const CompileResult result = compile(request, wants_color(stderr));
  fmt::print(stderr, "{}", result.messages);
  fmt::print("{}", result.dump);
  if (result.errors > 0) {
    fmt::print(stderr, "{}: {} error{}\n", options.file, result.errors,
               result.errors == 1 ? "" : "s");
    return kRequestWrong;
  }
  write_text_atomically(options.output, plan::to_json(*result.plan));
  fmt::print(stderr, "{}: jobs {} for {}\n", options.output, job_names(*result.plan),
             options.device.empty() ? "cpu (say --device gpu for the other)" : options.device);
  return kDone;
}

int show(const Options& options) {
  plan::Plan plan;
  if (!load(request_of(options), &plan)) return kRequestWrong;
  if (!options.job.empty()) {
    const plan::Job job = find_job(plan, options.job);
    plan.jobs = {job};
  }
  if (options.format == "json") {
    fmt::print("{}", plan::to_json(plan));
    return kDone;
  }
  for (size_t i = 0; i < plan.jobs.size(); ++i)
    fmt::print("{}{}", i ? "\n" : "", show_job(plan.jobs[i]));
  return kDone;
}

int explain(const Options& options) {
  const DiagnosisInfo* info = find_diagnosis(options.code);
  if (!info)
    throw RequestError(fmt::format("no message has the code `{}`", options.code),
                       "codes stand in brackets at the end of a message: [E0302]");
  fmt::print("{}: {}\n\n{}\n", info->code, info->title, info->explanation);
  return kDone;
}

int run(int argc, char** argv) {
  CLI::App app("Checks YAML job files and compiles them to plans that flowrun executes.", "flowc");
  dress(app, "flowc");
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 done; 2 the request or the job file is wrong; 3 a file cannot be read or "
      "written.\nExample: flowc check jobs/lenet.yaml");
  Options options;
  const auto add_sets = [&options](CLI::App* command) {
    command->add_option("--set", options.sets, "change a node of the job file, as in vars.lr=0.02")
        ->type_name("PATH=YAML")
        ->expected(1)
        ->take_all();
  };

  CLI::App* checks =
      app.add_subcommand("check", "all jobs of each file, all errors; opens no data");
  checks->add_option("FILE", options.files, "job files")->required()->type_name("");
  add_sets(checks);

  CLI::App* builds = app.add_subcommand("build", "the serialized plan of a file's jobs");
  builds->add_option("FILE", options.file, "a job file")->required()->type_name("");
  builds->add_option("-o,--output", options.output, "where the plan goes")
      ->type_name("PLAN")
      ->required();
  builds->add_option("--job", options.job, "this job alone")->type_name("J");
  builds->add_option("--device", options.device, "what to compile for")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  add_sets(builds);
  builds->add_option("--dump-after", options.dump_after, "print the graph after this pass")
      ->type_name("PASS");

  CLI::App* shows = app.add_subcommand("show", "what a job file or a plan does");
  shows->add_option("FILE", options.file, "a job file or a plan")->required()->type_name("");
  shows->add_option("--job", options.job, "this job alone")->type_name("J");
  shows->add_option("--format", options.format, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  add_sets(shows);

  CLI::App* explains = app.add_subcommand("explain", "what an error code means");
  explains->add_option("CODE", options.code, "as in [E0302]")->required()->type_name("");

  if (const int status = parse(app, argc, argv); status >= 0) return status;
  if (*checks) return check(options);
  if (*builds) return build(options);
  if (*shows) return show(options);
  return explain(options);
}

}  // namespace
}  // namespace flow::cli

int main(int argc, char** argv) {
  return flow::cli::guarded("flowc", [&] { return flow::cli::run(argc, argv); });
}
