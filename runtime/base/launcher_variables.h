// The environment variables by which launchers of MPI programs speak to a process.
#pragma once

namespace flow {

/// Is "NAME=VALUE" a variable of Open MPI's mpirun, of MPICH's Hydra, of PMI or of Slurm? A program
/// of MPI that reads them takes itself for the rank that they describe.
bool is_of_launcher(const char* assignment);

}  // namespace flow
