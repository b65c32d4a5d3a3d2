// Which rank of a launcher this process is, as its environment says, and the module of its MPI
// library. No MPI library is linked here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/core/collectives.h"
#include "runtime/exec/core/module.h"

namespace flow::exec {

enum class MpiKind { kOpenMpi, kMpich };

/// A process that mpirun, mpiexec or srun started.
struct LaunchedRank {
  int rank = 0, size = 1;
  int local_rank = 0;                // among those of its host
  std::string launcher;              // "Open MPI", "PMI", "Slurm"
  std::optional<MpiKind> kind = {};  // of the library; Slurm does not say
};

/// Nothing where no launcher started this process. RequestError that names a variable whose value
/// makes no sense.
std::optional<LaunchedRank> launched_rank(const Environment& environment);

/// What a module of an MPI library exports, with C linkage.
struct MpiModuleEntries {
  /// flow_module_build_id: compared before anything else is called.
  using BuildId = const char*();
  /// flow_mpi_open: initializes MPI; the caller owns the result. Throws RunError.
  using Open = Collectives*();
};

/// The MPI libraries that flow was built for: "openmpi", "mpich".
std::vector<std::string> built_mpi();

/// Opens the module that fits the launcher, or the one that `name` says ("openmpi", "mpich"), and
/// joins the run. RunError or RequestError where the module is missing, is of another build, or
/// sees other ranks than the launcher said: MPI and the launcher do not fit then.
std::unique_ptr<Collectives> open_mpi(const LaunchedRank& launched,
                                      const std::optional<std::string>& name);

}  // namespace flow::exec
