// The environment variables: their table and its page.
#include <fmt/format.h>

#include "cli/reference/environment_table.h"
#include "cli/reference/pages.h"

namespace flow::cli {

std::span<const EnvironmentRow> environment_read() {
  static constexpr EnvironmentRow kRows[] = {
      {"NO_COLOR", "Disables colour if it is set and not empty."},
      {"TERM", "`dumb` disables colour and the progress bar."},
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
       "The same of `srun`, with `SLURM_STEP_ID`, `SLURM_STEP_NUM_TASKS` and `SLURM_LOCALID`.",
       true},
      {"PATH", "Locates the commands of hooks and returns.", true},
  };
  return kRows;
}

std::span<const EnvironmentRow> environment_of_commands() {
  static constexpr EnvironmentRow kRows[] = {
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
  return kRows;
}

std::string environment_page() {
  std::string text =
      "# Environment variables\n\nThe programs read these variables. A job file reads others with "
      "`$env(NAME)`.\n\n| variable | meaning |\n| --- | --- |\n";
  for (const EnvironmentRow& row : environment_read())
    text += fmt::format("| `{}` | {} |\n", row.name, row.doc);
  text +=
      "\n## Variables of commands\n\n`flowrun` sets these variables for commands. Those of an "
      "event are set only with `mode: spawn`. Commands of a distributed run do not see the "
      "variables of the launcher.\n\n| variable | meaning |\n| --- | --- |\n";
  for (const EnvironmentRow& row : environment_of_commands())
    text += fmt::format("| `{}` | {} |\n", row.name, row.doc);
  return text;
}

}  // namespace flow::cli
