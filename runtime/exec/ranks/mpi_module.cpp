// Opening the module of an MPI library. No MPI library is linked here.
#include "runtime/exec/ranks/mpi_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/exec/run/shared_object.h"

namespace flow::exec {
namespace {

struct MpiModule {
  MpiKind kind;
  const char *name, *title, *file, *package;
};

constexpr MpiModule kMpiModules[] = {
    {MpiKind::kOpenMpi, "openmpi", "Open MPI", "libflow_openmpi.so", "libopenmpi-dev"},
    {MpiKind::kMpich, "mpich", "MPICH", "libflow_mpich.so", "libmpich-dev"},
};

bool is_built(const MpiModule& module) {
  std::error_code ignored;
  return fs::exists(library_folder() / module.file, ignored);
}

const MpiModule& module_called(const std::string& name) {
  for (const MpiModule& module : kMpiModules)
    if (name == module.name) return module;
  throw RequestError(fmt::format("unknown MPI library `{}`; expected openmpi or mpich", name));
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
  std::string hint = fmt::format("install {} and rebuild flow", module.package);
  for (const MpiModule& other : kMpiModules)
    if (is_built(other))
      hint += fmt::format(", or use --mpi {} with a launcher of {}", other.name, other.title);
  throw RequestError(fmt::format("flow was built without {}", module.title), hint);
}

std::string how_to_install(const std::string& library) {
  return fmt::format("install {}, or add its directory to LD_LIBRARY_PATH", library);
}

std::string how_to_start(const MpiModule& module, const LaunchedRank& launched) {
  if (launched.launcher == "Slurm") return "start it with srun --mpi=pmix";
  return fmt::format("start it with the mpirun of {}, the library that flow uses", module.title);
}

}  // namespace

std::unique_ptr<Collectives> open_mpi(const LaunchedRank& launched,
                                      const std::optional<std::string>& name) {
  const MpiModule& module = module_for(launched, name);
  check_built(module);
  // Plugins of Open MPI take its functions from the process.
  const SharedObject opened =
      SharedObject::open(library_folder() / module.file, RTLD_NOW | RTLD_GLOBAL,
                         fmt::format("{} module", module.title), how_to_install, {"flow_mpi_open"})
          .value();
  std::unique_ptr<Collectives> ranks(opened.entry<MpiModuleEntries::Open>("flow_mpi_open")());
  if (ranks->rank() != launched.rank || ranks->size() != launched.size)
    throw RequestError(
        fmt::format("{} sees rank {} of {}; {} started rank {} of {}", ranks->library(),
                    ranks->rank(), ranks->size(), launched.launcher, launched.rank, launched.size),
        how_to_start(module, launched));
  return ranks;
}

}  // namespace flow::exec
