// Programs around another one: the passes of a job that feeds results back, and the rows of each
// batch in another order.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// Where the steps of a job with a loop are cut: PrepareOptions::segments.
std::vector<size_t> segments_of(const plan::Job& job);

/// Runs the program's first segment, its second once for each pass, and its last one. States stay
/// on the device. `until` is read on the host after each pass.
/// REQUIRES: `program` is of `job`, which has a loop, and was prepared with segments_of(job).
std::unique_ptr<Program> make_loop(const plan::Job& job, std::unique_ptr<Program> program);

/// Wraps a program: its inputs and results have the rows of the batch in the order of the data, the
/// program itself has them in a random one, drawn from `seed`. `options`: of the program.
/// RequestError for a job without rows, or whose results say which row is which: one that draws a
/// number for each row, or delivers parts of shards.
std::unique_ptr<Program> permute_rows(const plan::Job& job, const PrepareOptions& options,
                                      uint64_t seed, std::unique_ptr<Program> program);

}  // namespace flow::exec
