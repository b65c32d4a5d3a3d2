// A job that feeds results back: a call of it is several launches of another program.
#pragma once

#include <memory>

#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// Where the steps of a job with a loop are cut: PrepareOptions::segments.
std::vector<size_t> segments_of(const plan::Job& job);

/// Runs the program's first segment, its second once for each pass, and its last one. States stay
/// on the device. `until` is read on the host after each pass.
/// REQUIRES: `program` is of `job`, which has a loop, and was prepared with segments_of(job).
std::unique_ptr<Program> make_loop(const plan::Job& job, std::unique_ptr<Program> program);

}  // namespace flow::exec
