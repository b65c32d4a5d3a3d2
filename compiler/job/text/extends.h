// `extends:`: a job that inherits the inputs and the graph of another one.
#pragma once

#include <string>
#include <vector>

#include "compiler/job/text/reader.h"

namespace flow::job {

/// Replaces `extends:` in each job of `file` by the inherited keys: `inputs`, `graph`, `placement`,
/// `precision` and `determinism` of the other job. The job's own keys are merged over them. Entries
/// that it adds to the graph have no entry above them. Runs before substitution of variables.
void extend_jobs(Reader& reader, yaml::Node& file);

/// What a path of keys leads to in a job that the job of the path extends, before extend_jobs;
/// null where that is nothing, or deleted on the way.
const yaml::Node* inherited(const yaml::Node& file, const std::vector<std::string>& path);

}  // namespace flow::job
