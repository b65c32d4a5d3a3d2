// Opening the module of an MPI library. No MPI library is linked here.
#include "runtime/exec/ranks/mpi_module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/exec/core/shared_object.h"

namespace flow::exec {
namespace {

struct MpiModule {
  MpiKind kind;
  const char *name, *title, *file, *package;
  const char* srun;  // how it starts ranks of this library
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

/// Slurm starts ranks of either library: there the first that is built.
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

/// Keeps what signals do: Open MPI, MPICH and UCX below it handle those of defects, and some more.
/// Threads that a library starts meanwhile get no signals.
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
  // Where plugins of Open MPI are not linked with it, they find its functions in the process only.
  const SharedObject opened =
      SharedObject::open(library_folder() / module.file, RTLD_NOW | RTLD_GLOBAL,
                         fmt::format("{} module", module.title), how_to_install, {"flow_mpi_open"})
          .value();
  return std::unique_ptr<Collectives>(opened.entry<MpiModuleEntries::Open>("flow_mpi_open")());
}

}  // namespace

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
