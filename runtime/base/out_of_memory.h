// What a program does when memory runs out where neither an exception nor a message can be made.
#pragma once

namespace flow {

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
