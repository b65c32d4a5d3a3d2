// The list of pages, and the pages of error codes, of the files that a run writes, and of
// environment variables.
#include "cli/reference/pages.h"

#include <fmt/format.h>

#include "compiler/diag/diag.h"

namespace flow::cli {
namespace {

struct Group {
  std::string_view prefix, title;
};
constexpr Group kGroups[] = {
    {"E01", "File and YAML"},     {"E02", "Names, variables and overrides"},
    {"E03", "Ops and shapes"},    {"E04", "Data and inputs"},
    {"E05", "Returns and hooks"}, {"E06", "Training"},
    {"E07", "Run and placement"}, {"W", "Warnings"},
};

/// Returns the page section for a group of errors. Four blanks mark examples in the explanations,
/// as in Markdown.
std::string group_text(const Group& group) {
  std::string text;
  for (const DiagnosisInfo& info : all_diagnoses())
    if (info.code.starts_with(group.prefix))
      text += fmt::format("\n### {}: {}\n\n{}\n", info.code, info.title, info.explanation);
  return text.empty() ? "" : fmt::format("\n## {}\n{}", group.title, text);
}

/// A file, a key of a file or an environment variable, with its purpose.
struct Row {
  std::string_view name, doc;  // words such as NAME are placeholders
  bool only_flowrun = false;   // true for a variable that only flowrun reads
};

std::string row_table(std::string_view name, std::string_view doc, std::span<const Row> rows,
                      bool of_flowrun = true) {
  std::string text = fmt::format("| {} | {} |\n| --- | --- |\n", name, doc);
  for (const Row& row : rows)
    if (of_flowrun || !row.only_flowrun) text += fmt::format("| `{}` | {} |\n", row.name, row.doc);
  return text;
}

// The files of a run directory, with paths relative to it.
constexpr Row kRunFiles[] = {
    {"plan.json", "The plan of the run. `flowrun JOB DIR/plan.json` runs it again. Written first."},
    {"run.json",
     "The summary: start, overrides, seed, machine, device, steps, seconds, exit status and "
     "error. "
     "`stop_reason` is done, early_stopping with its reason, signal, command, hook with its "
     "condition, or failure. `data` has rows and a digest of each data file. Of a distributed "
     "run, "
     "`ranks` has their count and the bytes that each sends in a step. Written last."},
    {"metrics.jsonl", "One JSON object per logged step or reduced value. See below."},
    {"returns/NAME/value.npy", "A returned tensor, one slice per step. Train and predict jobs."},
    {"returns/NAME/steps.npy", "The step of each slice."},
    {"rows.txt",
     "Of predict jobs that read images or tar files: the path of each image, or the tar file and "
     "the key of each sample."},
    {"watch/NAME/value.npy", "A watched tensor, one slice per event."},
    {"watch/NAME/diff.npy", "A watched gradient, one slice per event."},
    {"watch/NAME/steps.npy", "The step of each slice of `value.npy`."},
    {"watch/NAME/diff_steps.npy", "The step of each slice of `diff.npy`."},
    {"watch/NAME/000200.npy", "With `layout: per_step`: the tensor of one step."},
    {"watch/NAME/stats.csv",
     "With `to: {type: stats}`: statistics of a watched tensor, one line per event. A returned "
     "one has them in `returns/NAME/stats.csv`."},
    {"watch/NAME/diff_stats.csv", "The same of a watched gradient."},
    {"watch/SCOPE/scope.json",
     "The tensors of a scope that is watched with `npy`, with op, dtype and shape."},
    {"also/JOB/", "Returns and watched tensors of a job that `run.also` calls."},
    {"checkpoints/000200/", "The state after 200 steps. See below."},
    {"best/000200/", "With `keep_best`: the best state, a checkpoint after 200 steps."},
    {"rescued/", "The last state of a failed run. `--load` reads it; `--resume` does not."},
    {"fingerprints.bin",
     "With `--fingerprint`: moments and a hash of every tensor in the last recorded steps."},
    {"capture/inputs/NAME/000200.npy",
     "With `--capture`: a tensor that the entry reads in that step; `capture/outputs` has what "
     "it "
     "makes."},
    {"algorithms/",
     "With `--tune`: the algorithms that were the fastest. `--resume` uses them again."},
    {"profile.json", "With `--profile`: a trace for ui.perfetto.dev."},
};

constexpr Row kCheckpointFiles[] = {
    {"NAME.npy", "A variable, for example `lenet/conv1/weight.npy`."},
    {"NAME/SLOT.npy",
     "An optimizer slot of a variable, such as `momentum`, `m`, `v`, `row`, `slow` or `ema`."},
    {"JOB/loss_scale.npy",
     "The scale of a dynamic loss scale. `JOB/finite_steps.npy` has its count of steps."},
    {"checkpoint.json",
     "Step, epoch, seed, hashes of the plan, what the run decides by monitored values, and "
     "checksums of all arrays."},
    {"files.json", "Sizes and checksums of data files and outputs. `--resume` checks them."},
    {"data.json",
     "What the run learned from its data: means, standard deviations, fill values and categories, "
     "by column. Predict jobs read it."},
};

// The keys of a line of metrics.jsonl.
constexpr Row kMetricsKeys[] = {
    {"step", "The step, counted from 0. In rows of a called job: complete steps of the main job."},
    {"epoch", "The epoch, counted from 0. In rows of a called job: that of the main job."},
    {"loss", "The sum of the means of the minimized tensors; `null` if it is not finite."},
    {"learning_rate", "The learning rate of the step."},
    {"seconds", "Seconds since `flowrun` started this run or resumed it."},
    {"gradient_norm",
     "The norm of all gradients before clipping, with clipping by global norm or `norm: true`; "
     "`null` if it is not finite."},
    {"loss_scale", "The scale of a dynamic loss scale."},
    {"skipped", "`true` if a dynamic loss scale skipped the update."},
    {"job", "The job of a reduced value or of a called train job."},
    {"job_step", "In rows of a called job: its own step."},
    {"name", "The tensor of a value that a print sink reduced, or that the run monitors."},
    {"label", "The `label` of that print sink, or the monitored value, such as `eval.loss`."},
    {"value", "The reduced value; `null` if it is not finite."},
    {"main_step", "In a called job's own `metrics.jsonl`: complete steps of the main job."},
};

// The environment variables that the programs read.
constexpr Row kEnvironmentRead[] = {
    {"NO_COLOR", "Disables color if it is set and not empty."},
    {"TERM", "`dumb` disables color and the progress bar."},
    {"LD_LIBRARY_PATH", "Directories in which `flowrun` looks for the CUDA libraries.", true},
    {"CUDA_HOME", "A CUDA toolkit whose libraries `flowrun` searches. `CUDA_PATH` is the same.",
     true},
    {"VIRTUAL_ENV",
     "A Python environment whose packages `flowrun` searches for NVIDIA's libraries. "
     "`CONDA_PREFIX` is the same.",
     true},
    {"PATH", "`flowrun` also searches the packages of each `python3` in it.", true},
    {"ONEDNN_MAX_CPU_ISA",
     "Limits the instruction set of oneDNN and of products in float64: `AVX512_CORE`, `AVX2`, "
     "`AVX` or `SSE41`.",
     true},
    {"CUDA_VISIBLE_DEVICES", "Selects the GPU, as in every CUDA program.", true},
    {"CUBLAS_WORKSPACE_CONFIG",
     "Buffers of cuBLAS in cuDNN's recurrent layers. Defaults to `:4096:2`. With buffers of "
     "several sizes, as in `:16:8:4096:2`, kernels of flow compute these layers.",
     true},
    {"XDG_CACHE_HOME",
     "The parent of the cache of cuDNN's convolution plans, `$XDG_CACHE_HOME/flow`. Defaults to "
     "`~/.cache`.",
     true},
    {"HOME",
     "Locates `~/.cache` if `XDG_CACHE_HOME` is not set, and `~/.local`, whose Python packages "
     "`flowrun` searches.",
     true},
    {"OMPI_COMM_WORLD_RANK",
     "The rank of this process, as Open MPI's `mpirun` sets it, with `OMPI_COMM_WORLD_SIZE` and "
     "`OMPI_COMM_WORLD_LOCAL_RANK`. See `--distributed`.",
     true},
    {"PMI_RANK", "The same of MPICH's `mpirun`, with `PMI_SIZE` and `MPI_LOCALRANKID`.", true},
    {"SLURM_PROCID",
     "The same of `srun`, with `SLURM_STEP_ID`, `SLURM_STEP_NUM_TASKS` and `SLURM_LOCALID`.", true},
    {"PATH", "Locates the commands of hooks and returns.", true},
};

// The environment variables that the commands of hooks and returns receive.
constexpr Row kEnvironmentOfCommands[] = {
    {"FLOW_RUN_DIR", "The run directory. Also set for commands of `mode: stream`."},
    {"FLOW_EVENT", "The kind of the event: `watch`, `watch_diff` or `return`."},
    {"FLOW_JOB", "The name of the job."},
    {"FLOW_NAME", "The name of the tensor."},
    {"FLOW_STEP", "The step, counted from 0."},
    {"FLOW_EPOCH", "The epoch, counted from 0."},
    {"FLOW_DTYPE", "The dtype of the array. Several are joined by `;`."},
    {"FLOW_SHAPE", "The shape of the array, `100,10`. Several are joined by `;`."},
    {"FLOW_MAIN_STEP", "In a job that `run.also` calls: the complete steps of the main job."},
    {"FLOW_MAIN_EPOCH", "In a job that `run.also` calls: the epoch of the main job."},
};

}  // namespace

std::string errors_page() {
  std::string text =
      "# Errors\n\nMessages end with a code in brackets: `[E0302]`. `flowc explain CODE` prints "
      "these explanations.\n";
  for (const Group& group : kGroups) text += group_text(group);
  return text;
}

std::string files_page() {
  return "# Files of a run\n\n`flowrun` writes these files to the run directory: `-o DIR`, or "
         "`runs/FILE-JOB-NNN`. `flowrun` writes `run.json` last. Its absence means that the run "
         "is still active or was killed.\n\n" +
         row_table("path", "contents", kRunFiles) +
         "\n## Files of a checkpoint\n\nA checkpoint is a directory. Each variable is a `.npy` "
         "file "
         "under its name.\n\n" +
         row_table("path", "contents", kCheckpointFiles) +
         "\n## Rows of `metrics.jsonl`\n\nEach line is a JSON object.\n\n" +
         row_table("key", "meaning", kMetricsKeys);
}

std::string files_of_manual() {
  return "\n## Files\n\nIn the run directory:\n\n" + row_table("path", "contents", kRunFiles) +
         "\nIn a checkpoint:\n\n" + row_table("path", "contents", kCheckpointFiles) +
         "\nIn a row of `metrics.jsonl`:\n\n" + row_table("key", "meaning", kMetricsKeys);
}

std::string environment_page() {
  return "# Environment variables\n\nThe programs read these variables. A job file reads others "
         "with "
         "`$env(NAME)`.\n\n" +
         row_table("variable", "meaning", kEnvironmentRead) +
         "\n## Variables of commands\n\n`flowrun` sets these variables for commands. Those of an "
         "event are set only with `mode: spawn`. Commands of a distributed run do not see the "
         "variables of the launcher.\n\n" +
         row_table("variable", "meaning", kEnvironmentOfCommands);
}

std::string environment_of_manual(bool of_flowrun) {
  const std::string text =
      "\n## Environment\n\n" + row_table("variable", "meaning", kEnvironmentRead, of_flowrun);
  return of_flowrun ? text + "\nCommands of hooks and returns get these variables:\n\n" +
                          row_table("variable", "meaning", kEnvironmentOfCommands)
                    : text;
}

std::span<const ReferencePage> reference_pages() {
  static constexpr ReferencePage kPages[] = {
      {"job", "every key of a job file", job_page},
      {"ops", "every op with its operands, attributes and results", ops_page},
      {"optimizers", "optimizers, gradient clipping and loss scales", optimizers_page},
      {"schedules", "learning rate schedules and warm-ups", schedules_page},
      {"errors", "every error code with its explanation", errors_page},
      {"files", "the files that a run writes", files_page},
      {"tolerances", "every key of tolerances.yaml", tolerances_page},
      {"environment", "environment variables", environment_page},
  };
  return kPages;
}

}  // namespace flow::cli
