// The memory that a program may still allocate, and its actions if memory runs out where neither an
// exception nor a message can be created.
#pragma once

#include <cstddef>

#include "runtime/base/file.h"

namespace flow {

/// Returns the bytes that the system can provide without swapping and that the process's control
/// groups (which containers and batch systems set) leave to it. Returns the largest number if
/// neither sets a limit.
size_t available_memory();

/// Returns the bytes left below the limits of control groups and of the groups that contain them.
/// `groups` is a file that lists the groups, like /proc/self/cgroup, and their files are below
/// `mount`. Versions 1 and 2 of Linux's control groups are supported. File pages that can be
/// dropped count as free.
size_t left_in_groups(const fs::path& groups, const fs::path& mount);

/// The error message if oneDNN may not generate its kernels.
inline constexpr const char* kExecutableMemoryDenied =
    "the system denies executable memory, into which oneDNN generates its kernels";
inline constexpr const char* kAllowExecutableMemory =
    "allow it, such as by `MemoryDenyWriteExecute=no` in systemd or `execmem` in SELinux, or use "
    "`precision: float64`, which requires none";

/// Writes "PROGRAM: error: out of memory" and a hint to standard error, without memory or locks.
void report_out_of_memory() noexcept;

/// Makes report_out_of_memory() write one JSON object, as `flowrun --json` writes errors.
void report_out_of_memory_as_object();

/// After this call, an uncaught std::bad_alloc on any thread is reported and ends the program with
/// kRunFailed, even if there was no memory to throw it.
void catch_last_bad_alloc();

/// After this call, a write to a null pointer is also reported and ends the program, if the thread
/// could not get memory or was denied it. oneDNN generates code without checking whether it
/// received memory for it.
void catch_writes_without_memory();

/// Loads the code for unwinding in advance: the C library would load it late, and abort if it
/// cannot. If address space is limited, it also makes threads share one heap, because a heap for
/// each thread reserves 64 MiB.
void prepare_for_little_memory();

}  // namespace flow
