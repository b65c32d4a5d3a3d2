// Information of the system about this process, and the variables that launchers of MPI programs
// set.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace flow {

/// Returns the seconds since the process was started, or 0 if the system does not provide its start
/// time.
double process_age();

/// Returns the memory of the command line that programs like ps show for this process, or an empty
/// span if its address is unknown.
std::span<char> shown_words();

/// Returns the time in UTC in the format of records: "2026-11-26T19:20:31Z".
std::string utc_time();

/// Returns the name of the machine in its network.
std::string host_name();

/// Returns the peak resident memory of the process in bytes.
uint64_t peak_memory();

/// Returns true if "NAME=VALUE" is a variable of Open MPI's mpirun, of MPICH's Hydra, of PMI or of
/// Slurm. An MPI program that reads these variables acts as the rank that they describe.
bool is_of_launcher(const char* assignment);

}  // namespace flow
