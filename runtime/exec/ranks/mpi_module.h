// Determines from the environment which rank of a launcher this process is, and opens the module of
// its MPI library. This file links to no MPI library.
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
  int local_rank = 0;                // its number among the ranks of its host
  std::string launcher;              // "Open MPI", "PMI", "Slurm"
  std::optional<MpiKind> kind = {};  // the kind of the library; Slurm does not specify it
};

/// Returns the rank, or nothing if no launcher started this process. Throws RequestError that names
/// a variable with an invalid value.
std::optional<LaunchedRank> launched_rank(const Environment& environment);

/// The functions that the module of an MPI library exports, with C linkage.
struct MpiModuleEntries {
  /// flow_module_build_id: the caller compares the result before it calls anything else.
  using BuildId = const char*();
  /// flow_mpi_open: initializes MPI. The caller owns the result. Throws RunError.
  using Open = Collectives*();
};

/// The MPI libraries that flow was built for: "openmpi", "mpich".
std::vector<std::string> built_mpi();

/// Opens the module that matches the launcher, or the one that `name` specifies ("openmpi",
/// "mpich"), and joins the run. Throws RunError or RequestError if the module is missing or of
/// another build, or if it reports other ranks than the launcher, which means that MPI and the
/// launcher do not match.
std::unique_ptr<Collectives> open_mpi(const LaunchedRank& launched,
                                      const std::optional<std::string>& name);

}  // namespace flow::exec
