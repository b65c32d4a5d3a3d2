// Runs the stages of the compiler in order: text, tree, includes, overrides, extended jobs,
// sections, graph, passes, plan.
#include "compiler/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/bind/bind.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/text/merge.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/pipeline.h"
#include "compiler/yaml/parse.h"
#include "compiler/yaml/tree.h"
#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow {
namespace {

/// The state that all jobs of one compilation share.
struct Compilation {
  const CompileRequest& request;
  job::Reader& reader;
  const job::File& file;
  CompileResult& result;
  job::Usage usage = {};
  job::SharedVariables variables = {};
};

/// Returns true if the request names this job or no job.
bool is_asked_for(const CompileRequest& request, const job::Job& job) {
  return !request.job || *request.job == job.name.text;
}

/// Returns true if the request asks for this job or for a job that calls it.
bool is_wanted(const Compilation& all, const job::Job& job) {
  if (is_asked_for(all.request, job)) return true;
  return std::ranges::any_of(all.file.jobs, [&](const job::Job& other) {
    return is_asked_for(all.request, other) && job::calls(other, job.name.text);
  });
}

/// Returns true if the passes report no error. The passes stop at errors, so they get their own
/// Diags, without the errors of other parts of the file.
bool run_passes(Compilation& all, ir::Graph& graph, passes::Context& context) {
  const std::string& dump_after = all.request.dump_after;
  Diags found(all.reader.sources);
  passes::run_pipeline(graph, context, found, !dump_after.empty(), dump_after, &all.result.dump);
  for (const Diag* diag : found.sorted()) all.reader.diags.add(*diag);
  return !found.has_errors();
}

/// Reports a job whose tensors together exceed the largest size of a plan. The size of each tensor
/// alone was checked before.
void check_size(job::Reader& reader, const job::Job& job, const ir::Graph& graph) {
  uint64_t bytes = 0;
  for (const ir::Value& value : graph.values) {
    bytes += bytes_of(value.shape, value.dtype) *
             static_cast<uint64_t>(value.batch_axis < 0 ? 1 : graph.shards);
    if (bytes <= plan::kMostBytes) continue;
    reader.error(Diagnosis::kTensorTooLarge, value.span.valid() ? value.span : job.name.span,
                 fmt::format("with `{}` {}, the tensors of job `{}` take {}; expected at most {}",
                             value.name, value.shape.str(), job.name.text, human_bytes(bytes),
                             human_bytes(plan::kMostBytes)));
    return;
  }
}

/// Compiles one job of the file. Returns nothing if there are errors, or if the request needs only
/// other jobs; such a job is still checked up to its graph.
std::optional<plan::Job> compile_job(Compilation& all, const job::Job& job) {
  job::Reader& reader = all.reader;
  job::check_implied_rows(reader, all.file, job);
  job::Instance instance(reader, all.file, job, all.request.target, all.usage);
  job::Bindings bindings = job::bind(reader, instance, job);
  all.variables.check(reader, job, instance.graph);
  if (!is_wanted(all, job)) return {};

  plan::Job made;
  job::place(reader, job, all.request.target, made);
  if (!bindings.complete) return {};
  if (const auto& training = bindings.context.training)
    job::warn_of_swapped_labels(reader, instance.graph, training->variables);
  if (!run_passes(all, instance.graph, bindings.context)) return {};
  if (job.train) job::check_gradients(reader, instance.graph, job, bindings);
  check_size(reader, job, instance.graph);
  if (reader.diags.has_errors()) return {};

  const Lowered lowered = lower(instance.graph, reader.sources, made);
  job::write_io_spec(reader, all.file, job, instance.graph, bindings, lowered, made);
  plan::assign_lifetimes(made);
  all.result.entries.emplace(made.name, instance.entries());
  return made;
}

/// Adds the hooks of the command line to every job that the request asks for.
void add_hook_options(job::Reader& reader, const CompileRequest& request, job::File& file) {
  const auto add = [&](const char* option, const std::vector<std::string>& texts,
                       job::Hook::Kind kind) {
    for (const std::string& text : texts)
      if (const auto hook = job::read_hook_option(reader, option, text, kind))
        for (job::Job& job : file.jobs)
          if (is_asked_for(request, job)) job.hooks.push_back(*hook);
  };
  add("--watch", request.watches, job::Hook::Kind::kWatch);
  add("--watch-diff", request.watch_diffs, job::Hook::Kind::kWatchDiff);
  add("--watch-scope", request.watch_scopes, job::Hook::Kind::kWatchScope);
}

void check_job_option(job::Reader& reader, const CompileRequest& request, const job::File& file) {
  if (!request.job) return;
  std::vector<std::string> names;
  for (const job::Job& job : file.jobs) names.push_back(job.name.text);
  for (const std::string& name : names)
    if (name == *request.job) return;
  const int32_t source = reader.sources.add_words("command line", *request.job);
  reader
      .error(Diagnosis::kUnknownJob, {source, 0, static_cast<uint32_t>(request.job->size())},
             fmt::format("unknown job `{}`", *request.job))
      .with_hint(job::suggestion(*request.job, names, "available jobs:"));
}

/// Removes what a called job leaves to its caller: it calls no other job, stops no run early, and
/// keeps no best checkpoint.
void leave_to_caller(plan::Run& run) {
  run.also.clear();
  run.early_stopping.reset();
  run.checkpoint.keep_best.reset();
}

/// Checks that the runtime accepts the plan that the compiler made.
void check_own_plan(const plan::Plan& plan) {
  try {
    plan::check(plan, plan.source);
  } catch (const RequestError& error) {
    FLOW_CHECK(false, "the compiled plan is invalid: {}", error.what());
  }
}

void compile_jobs(const CompileRequest& request, job::Reader& reader, job::File& file,
                  CompileResult& result) {
  check_job_option(reader, request, file);
  add_hook_options(reader, request, file);
  for (job::Job& job : file.jobs)
    if (is_asked_for(request, job)) job::add_followed_hooks(file, job);
  plan::Plan plan;
  plan.source = request.file;
  // The directory is computed as the parent of a file in it, because the path of the directory
  // itself would keep its final slash.
  const fs::path inside = job::directory_of(request.file) + "data";
  plan.root = fs::absolute(inside).parent_path().lexically_normal().string();
  Compilation all{request, reader, file, result};
  for (const job::Job& job : file.jobs)
    if (auto made = compile_job(all, job)) {
      if (!is_asked_for(request, job)) leave_to_caller(made->run);
      plan.jobs.push_back(std::move(*made));
    }
  job::check_sub_job_plans(reader, file, plan.jobs);
  if (reader.diags.has_errors()) return;
  all.usage.warn(reader);
  job::warn_of_unused(reader, file);
  plan.notes = std::move(reader.notes);
  check_own_plan(plan);
  result.plan = std::move(plan);
}

/// Writes the file without variables, and with or without its defaults. The file is known to have
/// no errors, so diagnostics that this repeats are dropped.
std::string written(Sources& sources, int32_t source, yaml::Node file, Writing writing) {
  Diags known(sources);
  job::Reader reader(sources, known, source);
  job::resolve(reader, file);
  if (writing == Writing::kFull) job::write_defaults(reader, file);
  if (writing == Writing::kMinimal) job::drop_defaults(reader, file);
  return yaml::write(file);
}

/// Merges the file with the files that it includes and with the overrides. Returns false if a file
/// cannot be read.
bool merge_sources(job::Reader& reader, yaml::Node& file, const std::vector<std::string>& sets) {
  job::DefaultOutputs outputs;
  if (!job::include_files(reader, file, outputs)) return false;
  job::apply_overrides(reader, file, sets);
  job::extend_jobs(reader, file);
  job::finish_deletions(reader, file);
  outputs.write(reader, file);
  return true;
}

}  // namespace

CompileResult compile_text(const CompileRequest& request, std::string text, const Layout& layout) {
  CompileResult result;
  Sources sources;
  Diags diags(sources);
  const int32_t source = sources.add(request.file, std::move(text));
  job::Reader reader(sources, diags, source);

  yaml::Node tree = yaml::parse(sources, source, diags);
  if (tree.is_mapping() && merge_sources(reader, tree, request.sets)) {
    yaml::Node as_given = request.writing ? tree : yaml::Node{};
    job::File file = job::read_file(reader, tree);
    compile_jobs(request, reader, file, result);
    if (!diags.has_errors()) result.datasets = job::all_datasets(file);
    if (request.writing && !diags.has_errors())
      result.job_file = written(sources, source, std::move(as_given), *request.writing);
  }

  result.sources = sources.names();
  result.messages = diags.render(layout);
  if (layout.objects)
    for (const Diag& diag : diags.folded())
      result.objects.push_back(to_json(diag, sources, request.file));
  result.errors = diags.distinct_errors();
  FLOW_CHECK(result.plan || result.errors > 0, "{} has no plan and no errors", request.file);
  return result;
}

}  // namespace flow
