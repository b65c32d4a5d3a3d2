// Declares the JSON Schemas (2020-12) of job files and of plans. They are made from the tables with
// which the compiler reads these files. Editors use them for completion and checks.
#pragma once

#include <string>

namespace flow {

/// Returns the schema of job files. It accepts everything that a schema cannot check, such as
/// whether a name is the name of a tensor.
std::string job_schema();

/// Returns the schema of plans as `flowc build` writes them.
std::string plan_schema();

}  // namespace flow
