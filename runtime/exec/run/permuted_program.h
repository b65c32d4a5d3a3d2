// A program that computes the rows of each batch in another order.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// Wraps a program: its inputs and results have the rows of the batch in the order of the data, the
/// program itself has them in a random one, drawn from `seed`. `options`: of the program.
/// RequestError for a job without rows, or whose results say which row is which: one that draws a
/// number for each row, or delivers parts of shards.
std::unique_ptr<Program> permute_rows(const plan::Job& job, const PrepareOptions& options,
                                      uint64_t seed, std::unique_ptr<Program> program);

}  // namespace flow::exec
