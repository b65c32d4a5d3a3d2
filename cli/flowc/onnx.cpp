// The export and import of ONNX models.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "cli/flowc/flowc.h"
#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "ops/core/limits.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/io/npz.h"
#include "runtime/onnx/onnx.h"

namespace flow::cli {
namespace {

/// Returns the job of the given name, or the only predict job if no name is given.
const plan::Job& job_to_export(const plan::Plan& plan, const std::string& name) {
  if (!name.empty()) return find_job(plan, name);
  std::vector<const plan::Job*> jobs;
  for (const plan::Job& job : plan.jobs)
    if (!job.train) jobs.push_back(&job);
  if (jobs.size() == 1) return *jobs[0];
  std::vector<std::string> names;
  for (const plan::Job* job : jobs) names.push_back("`" + job->name + "`");
  throw RequestError(fmt::format("{} has {}{}", plan.source, counted(jobs.size(), "predict job"),
                                 names.empty() ? "" : ": " + join(names, ", ")),
                     names.empty() ? "only predict jobs are exported" : "name one with --job");
}

/// Reads the values of a job's variables.
class JobVariables {
 public:
  /// `load` contains the arguments of --load. If it is empty, the values come from the paths that
  /// the job itself loads.
  JobVariables(const plan::Plan& plan, const plan::Job& job, const std::vector<std::string>& load,
               bool ema)
      : state_({&job}) {
    if (load.empty() && job.run.checkpoint.load.empty())
      throw RequestError(
          fmt::format("{}: job `{}` has {}, but nothing to load them from", job.where, job.name,
                      counted(state_.entries().size(), "variable")),
          "add --load CHECKPOINT or --load RUN; --load none initializes them");
    const std::vector<exec::LoadedPath> paths = exec::loaded_paths(job, plan.root, load);
    if (paths.empty()) {
      if (ema) throw RequestError("--ema requires a checkpoint to load", "add --load CHECKPOINT");
      state_.initialize(plan.root);
      return;
    }
    const auto stored = exec::open_by_rules(paths, ema, job, exec::wanted_variables({&job}), {});
    source_ = stored->path().string();
    exec::load(*stored, job, state_);
  }

  /// Returns the value of a variable. REQUIRES: `tensor` is a variable of the job and has not been
  /// taken before.
  Array take(const plan::Tensor& tensor) {
    const auto entry = std::ranges::find(state_.entries(), &tensor, &exec::State::Entry::tensor);
    return std::move(entry->value);
  }
  /// Describes the origin of the values.
  const std::string& source() const { return source_; }

 private:
  exec::State state_;
  std::string source_ = "initial values";
};

/// Parses the NAME=SIZE arguments of --dim.
std::map<std::string, int64_t> dimensions_of(const FlowcOptions& options) {
  std::map<std::string, int64_t> sizes;
  for (const std::string& text : options.dimensions) {
    const size_t equals = std::min(text.find('='), text.size());
    const auto size =
        whole_number(std::string_view(text).substr(std::min(equals + 1, text.size())));
    if (!size || *size < 1 || *size > ops::kMaxSize)
      throw RequestError(fmt::format("--dim {}: expected NAME=SIZE", text),
                         "name a dimension and its size: --dim sequence=128");
    sizes[text.substr(0, equals)] = *size;
  }
  return sizes;
}

/// Throws RequestError if the job file has errors, which happens if the model is invalid.
void require_compiles(const std::string& model, const fs::path& path, const std::string& text) {
  CompileRequest request;
  request.file = path.string();
  const CompileResult result = compile_text(request, text);
  if (result.errors > 0)
    throw RequestError(fmt::format("{} cannot be imported; its job file would have errors:\n{}",
                                   model, result.messages));
}

void write_arrays(const fs::path& path, const std::map<std::string, Array>& arrays) {
  Replacement fresh(path);
  io::NpzWriter writer(fresh.file());
  for (const auto& [name, array] : arrays) writer.add(name, array.view());
  writer.finish();
  fresh.file().sync();
  fresh.commit();
}

}  // namespace

bool is_onnx(const FlowcOptions& options) {
  return fs::path(options.output).extension() == ".onnx";
}

int export_onnx(const FlowcOptions& options) {
  check_new_file(options.output);
  if (!options.file.empty())
    throw RequestError("--names does not apply to ONNX",
                       "omit it; arrays that --load reads are named by the rules of the job");
  if (!options.only.empty())
    throw RequestError("--only does not apply to ONNX", "omit it; a model needs all variables");
  FlowcOptions of_job = options;
  of_job.file = options.checkpoint;
  const auto loaded = load(request_of(of_job));
  if (!loaded) return kRequestWrong;
  const plan::Job& job = job_to_export(loaded->plan, options.job);
  std::optional<JobVariables> variables;  // read only after the job is known to be exportable
  const onnx::ExportedModel model = onnx::export_job(job, [&](const plan::Tensor& tensor) {
    if (!variables) variables.emplace(loaded->plan, job, options.load, options.ema);
    return variables->take(tensor);
  });
  write_new_file(options.output, model.bytes);
  print_to_stderr(fmt::format("{}: job `{}`, {} and {}{}\n", escaped(options.output), job.name,
                              counted(model.nodes, "node"), counted(model.initializers, "array"),
                              variables ? " from " + escaped(variables->source()) : ""));
  if (model.batch > 0)
    print_to_stderr(fmt::format("{}: `{}` depends on the size of the batch; the model takes {}\n",
                                escaped(options.output), model.fixed_by,
                                counted(static_cast<size_t>(model.batch), "row")));
  return kDone;
}

int import_onnx(const FlowcOptions& options) {
  const fs::path job_file = options.output;
  const fs::path weights = fs::path(options.output).replace_extension(".npz");
  if (job_file.extension() != ".yaml" && job_file.extension() != ".yml")
    throw RequestError(fmt::format("-o {} is not a job file", options.output),
                       "end the name in .yaml");
  check_new_file(job_file);
  check_new_file(weights);
  const std::string model = options.file;
  const MappedFile file(model);
  onnx::ImportedModel imported;
  file.recovering([&] {
    imported = onnx::import_model(file.bytes(), {.source = model,
                                                 .job_file = job_file.string(),
                                                 .weights = weights.filename().string(),
                                                 .dimensions = dimensions_of(options)});
  });
  require_compiles(model, job_file, imported.job_file);
  if (!imported.variables.empty()) write_arrays(weights, imported.variables);
  try {
    write_new_file(job_file, imported.job_file);
  } catch (...) {
    if (!imported.variables.empty()) remove_path(weights);
    throw;
  }
  print_to_stderr(fmt::format("{}: {} from {}\n", escaped(options.output),
                              counted(imported.nodes, "node"), escaped(model)));
  if (!imported.variables.empty())
    print_to_stderr(fmt::format("{}: {}\n", escaped(weights.string()),
                                counted(imported.variables.size(), "array")));
  return kDone;
}

}  // namespace flow::cli
