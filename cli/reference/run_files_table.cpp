// The files of a run, of a checkpoint, and the keys of metrics.jsonl.
#include "cli/reference/run_files_table.h"

namespace flow::cli {

std::span<const FileRow> run_files() {
  static constexpr FileRow kRows[] = {
      {"plan.json",
       "The plan of the run. `flowrun JOB DIR/plan.json` runs it again. Written first."},
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
  return kRows;
}

std::span<const FileRow> checkpoint_files() {
  static constexpr FileRow kRows[] = {
      {"NAME.npy", "A variable, for example `lenet/conv1/weight.npy`."},
      {"NAME/SLOT.npy",
       "An optimizer slot of a variable, such as `momentum`, `m`, `v`, `row`, `slow` or `ema`."},
      {"JOB/loss_scale.npy",
       "The scale of a dynamic loss scale. `JOB/finite_steps.npy` has its count of steps."},
      {"checkpoint.json",
       "Step, epoch, seed, hashes of the plan, what the run decides by monitored values, and "
       "checksums of all arrays."},
      {"files.json", "Sizes and checksums of data files and outputs. `--resume` checks them."},
  };
  return kRows;
}

std::span<const FileRow> metrics_keys() {
  static constexpr FileRow kRows[] = {
      {"step",
       "The step, counted from 0. In rows of a called job: complete steps of the main job."},
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
  return kRows;
}

}  // namespace flow::cli
