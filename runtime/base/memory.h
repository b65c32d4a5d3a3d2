// How much memory a program may still take, and what it does when memory runs out where neither an
// exception nor a message can be made.
#pragma once

#include <cstddef>

#include "runtime/base/file.h"

namespace flow {

/// Bytes that the system can give without swapping and that the process's control groups
/// (containers and batch systems set them) leave it; the largest number where neither says.
size_t available_memory();

/// Bytes left below the limits of the groups that `groups` lists, as /proc/self/cgroup does, and of
/// those around them, whose files are below `mount`. Versions 1 and 2 of Linux's control groups;
/// file pages that can be dropped count as free.
size_t left_in_groups(const fs::path& groups, const fs::path& mount);

/// What is wrong and what to do, where oneDNN may not generate its kernels.
inline constexpr const char* kExecutableMemoryDenied =
    "the system denies executable memory, into which oneDNN generates its kernels";
inline constexpr const char* kAllowExecutableMemory =
    "allow it, such as by `MemoryDenyWriteExecute=no` in systemd or `execmem` in SELinux, or use "
    "`precision: float64`, which requires none";

/// Writes "PROGRAM: error: out of memory" and a hint to standard error, without memory or locks.
void report_out_of_memory() noexcept;

/// The same as one JSON object, as `flowrun --json` writes errors.
void report_out_of_memory_as_object();

/// From now on an uncaught std::bad_alloc, on any thread, is reported and ends the program with
/// kRunFailed, also where there was no memory to throw it.
void catch_last_bad_alloc();

/// From now on so does a write to a null pointer by a thread that could not get memory, or was
/// denied it: oneDNN generates code without looking whether it got memory for it.
void catch_writes_without_memory();

/// Loads what unwinding needs: the C library would do so late, and abort where it cannot. Where
/// address space is limited, threads share one heap; one each reserves 64 MiB.
void prepare_for_little_memory();

}  // namespace flow
