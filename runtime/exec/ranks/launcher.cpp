// Which rank of a launcher this process is: a table of launchers and their variables.
#include "runtime/exec/ranks/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::exec {
namespace {

constexpr const char* kHowToStart = "start flowrun with mpirun or srun, which set it";

/// A launcher is there where its `marks` are set.
struct Launcher {
  const char* name;
  std::optional<MpiKind> kind;
  const char *rank, *size, *local_rank;
  const char* marks[2];
};

/// The first that is there counts. mpirun may start its daemons with srun: ranks inherit the
/// daemons' SLURM_*. MPICH's mpirun sets MPI_LOCALRANKID, which `srun --mpi=pmi2` does not.
constexpr Launcher kLaunchers[] = {
    {.name = "Open MPI",
     .kind = MpiKind::kOpenMpi,
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .marks = {"OMPI_COMM_WORLD_RANK"}},
    {.name = "PMI",
     .kind = MpiKind::kMpich,
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .local_rank = "MPI_LOCALRANKID",
     .marks = {"PMI_RANK", "MPI_LOCALRANKID"}},
    {.name = "Slurm",
     .kind = MpiKind::kMpich,
     .rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .local_rank = "SLURM_LOCALID",
     .marks = {"SLURM_STEP_ID", "PMI_RANK"}},
    {.name = "Slurm",
     .kind = std::nullopt,
     .rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .local_rank = "SLURM_LOCALID",
     .marks = {"SLURM_STEP_ID"}},
    {.name = "PMI",
     .kind = MpiKind::kMpich,
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .local_rank = "MPI_LOCALRANKID",
     .marks = {"PMI_RANK"}},
};

bool is_there(const Launcher& launcher, const Environment& environment) {
  return std::ranges::all_of(launcher.marks,
                             [&](const char* mark) { return !mark || environment(mark); });
}

int number_in(const char* variable, const char* value) {
  const std::optional<int64_t> number = whole_number(value);
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max())
    throw RequestError(
        fmt::format("environment variable {} is \"{}\"; expected a whole number", variable, value),
        kHowToStart);
  return static_cast<int>(*number);
}

int number_in(const Environment& environment, const char* variable) {
  if (const char* value = environment(variable)) return number_in(variable, value);
  throw RequestError(fmt::format("environment variable {} is missing", variable), kHowToStart);
}

void check_below(const char* variable, int number, const char* limiting, int limit) {
  if (number >= limit)
    throw RequestError(fmt::format("environment variable {} is {}; expected less than {}, {}",
                                   variable, number, limiting, limit),
                       kHowToStart);
}

}  // namespace

std::optional<LaunchedRank> launched_rank(const Environment& environment) {
  const auto* launcher = std::ranges::find_if(
      kLaunchers, [&](const Launcher& one) { return is_there(one, environment); });
  if (launcher == std::end(kLaunchers)) return std::nullopt;
  LaunchedRank launched{.rank = number_in(environment, launcher->rank),
                        .size = number_in(environment, launcher->size),
                        .launcher = launcher->name,
                        .kind = launcher->kind};
  if (const char* local = environment(launcher->local_rank))
    launched.local_rank = number_in(launcher->local_rank, local);
  check_below(launcher->rank, launched.rank, launcher->size, launched.size);
  check_below(launcher->local_rank, launched.local_rank, launcher->size, launched.size);
  return launched;
}

bool is_of_launcher(const char* assignment) {
  constexpr std::string_view kPrefixes[] = {
      "OMPI_",           "OPAL_", "PRTE_", "PMI", "SLURM_", "HYDI_", "HYDRA_", "MPI_LOCALRANKID=",
      "MPI_LOCALNRANKS="};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
    return std::string_view(assignment).starts_with(prefix);
  });
}

}  // namespace flow::exec
