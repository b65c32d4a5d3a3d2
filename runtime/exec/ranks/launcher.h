// Which rank of a launcher this process is, as its environment says.
#pragma once

#include <optional>
#include <string>

#include "runtime/exec/core/environment.h"

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

}  // namespace flow::exec
