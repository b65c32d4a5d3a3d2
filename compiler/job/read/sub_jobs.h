// `run.also`: other jobs that are called while a job runs, on the same variables.
#pragma once

#include <vector>

#include "compiler/job/read/job.h"
#include "compiler/job/text/reader.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {

/// Reads `also:` of a run section into `job`. `has_dataset`: an epoch is known.
void read_sub_jobs(Reader& reader, const yaml::Node& node, bool has_dataset, Job& job);

/// Reports unknown jobs, the job itself, and duplicates.
void check_sub_job_names(Reader& reader, const File& file);

/// Reports jobs that cannot share their variables with the job that calls them. `made`: the plans
/// of the jobs that were compiled.
void check_sub_job_plans(Reader& reader, const File& file, const std::vector<plan::Job>& made);

/// Does `job` call the job of that name?
bool calls(const Job& job, std::string_view name);

}  // namespace flow::job
