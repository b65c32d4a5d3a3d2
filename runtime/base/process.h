// What the system knows of this process, and what launchers of MPI programs tell a process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace flow {

/// Seconds since the process was started; 0 where the system keeps no account of it.
double process_age();

/// The memory of the words that programs like ps show for this process; empty where it is unknown.
std::span<char> shown_words();

/// The time in UTC, as records have it: "2026-11-26T19:20:31Z".
std::string utc_time();

/// The machine's name in its network.
std::string host_name();

/// The most bytes that it has had resident.
uint64_t peak_memory();

/// Is "NAME=VALUE" a variable of Open MPI's mpirun, of MPICH's Hydra, of PMI or of Slurm? A program
/// of MPI that reads them takes itself for the rank that they describe.
bool is_of_launcher(const char* assignment);

}  // namespace flow
