// What drives the calls of a job, written into its plan: inputs, returns, hooks, schedule, run.
#pragma once

#include "compiler/job/bind/bind.h"
#include "compiler/job/read/job.h"
#include "compiler/lower/lower.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {

/// Fills everything of `made` but tensors, variables and steps, which `lowered` describes.
void write_io_spec(Reader& reader, const File& file, const Job& job, const ir::Graph& graph,
                   const Bindings& bindings, const Lowered& lowered, plan::Job& made);

/// The column of a dataset without `shape:` has the rows of the input that reads it; two inputs
/// that disagree are an error.
void check_implied_rows(Reader& reader, const File& file, const Job& job);

}  // namespace flow::job
