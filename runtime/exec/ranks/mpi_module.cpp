// The launchers with their environment variables, and the modules of MPI libraries.
#include "runtime/exec/ranks/mpi_module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::exec {
namespace {

constexpr const char* kHowToStart = "start flowrun with mpirun or srun, which set it";

/// A launcher has started this process if its `marks` are set.
struct Launcher {
  const char* name;
  std::optional<MpiKind> kind;
  const char *rank, *size, *local_rank;
  const char* marks[2];
};

/// The first launcher whose marks are set is used. mpirun may start its daemons with srun, and
/// ranks inherit SLURM_* from the daemons. MPICH's mpirun sets MPI_LOCALRANKID, which `srun
/// --mpi=pmi2` does not.
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

struct MpiModule {
  MpiKind kind;
  const char *name, *title, *file, *package;
  const char* srun;  // the command that starts ranks of this library
};

constexpr MpiModule kMpiModules[] = {
    {MpiKind::kOpenMpi, "openmpi", "Open MPI", "libflow_openmpi.so", "libopenmpi-dev",
     "srun --mpi=pmix"},
    {MpiKind::kMpich, "mpich", "MPICH", "libflow_mpich.so", "libmpich-dev", "srun --mpi=pmi2"},
};

bool is_built(const MpiModule& module) {
  std::error_code ignored;
  return fs::exists(library_folder() / module.file, ignored);
}

const MpiModule& module_called(const std::string& name) {
  for (const MpiModule& module : kMpiModules)
    if (name == module.name) return module;
  throw RequestError(fmt::format("unknown MPI library `{}`; expected openmpi or mpich", name),
                     "use --mpi openmpi");
}

/// Returns the module to use. Slurm can start ranks of either library, so the first one that is
/// built is used.
const MpiModule& module_for(const LaunchedRank& launched, const std::optional<std::string>& name) {
  if (name) return module_called(*name);
  const auto* found = std::ranges::find_if(kMpiModules, [&](const MpiModule& module) {
    return launched.kind ? module.kind == *launched.kind : is_built(module);
  });
  return found == std::end(kMpiModules) ? kMpiModules[0] : *found;
}

void check_built(const MpiModule& module) {
  if (is_built(module)) return;
  const bool packaged = is_packaged();
  std::string hint = packaged ? fmt::format("install the package flow-{}", module.name)
                              : fmt::format("install {} and rebuild flow", module.package);
  for (const MpiModule& other : kMpiModules)
    if (is_built(other))
      hint += fmt::format(", or use --mpi {} with a launcher of {}", other.name, other.title);
  throw RequestError(packaged ? fmt::format("the {} module is not installed", module.title)
                              : fmt::format("flow was built without {}", module.title),
                     hint);
}

/// Restores signal handlers. Open MPI, MPICH and UCX, which they use, install handlers for the
/// signals of crashes and for some others. Threads that a library starts while this object exists
/// block all signals.
class KeptSignals {
 public:
  KeptSignals() {
    for (int signal = 1; signal < SIGRTMIN; ++signal)
      ::sigaction(signal, nullptr, &actions_[signal]);
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &mask_);
  }
  ~KeptSignals() {
    for (int signal = 1; signal < SIGRTMIN; ++signal)
      ::sigaction(signal, &actions_[signal], nullptr);
    ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  struct sigaction actions_[NSIG] = {};
  sigset_t mask_ = {};
};

std::string how_to_install(const std::string& library) {
  return fmt::format("install {}, or add its directory to LD_LIBRARY_PATH", library);
}

std::string how_to_start(const MpiModule& module, const LaunchedRank& launched) {
  if (launched.launcher == "Slurm") return fmt::format("start it with {}", module.srun);
  return fmt::format("start it with the mpirun of {}, the library that flow uses", module.title);
}

std::unique_ptr<Collectives> open_module(const MpiModule& module) {
  const KeptSignals kept;
  // If plugins of Open MPI are not linked with it, they find its functions only among the global
  // symbols of the process.
  const SharedObject opened =
      SharedObject::open(library_folder() / module.file, RTLD_NOW | RTLD_GLOBAL,
                         fmt::format("{} module", module.title), how_to_install, {"flow_mpi_open"})
          .value();
  return std::unique_ptr<Collectives>(opened.entry<MpiModuleEntries::Open>("flow_mpi_open")());
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

std::vector<std::string> built_mpi() {
  std::vector<std::string> built;
  for (const MpiModule& module : kMpiModules)
    if (is_built(module)) built.emplace_back(module.name);
  return built;
}

std::unique_ptr<Collectives> open_mpi(const LaunchedRank& launched,
                                      const std::optional<std::string>& name) {
  const MpiModule& module = module_for(launched, name);
  check_built(module);
  std::unique_ptr<Collectives> ranks = open_module(module);
  if (ranks->rank() != launched.rank || ranks->size() != launched.size)
    throw RequestError(
        fmt::format("{} sees rank {} of {}; {} started rank {} of {}", ranks->library(),
                    ranks->rank(), ranks->size(), launched.launcher, launched.rank, launched.size),
        how_to_start(module, launched));
  return ranks;
}

}  // namespace flow::exec
