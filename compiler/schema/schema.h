// JSON Schema 2020-12 of job files and of plans, made from the tables that the compiler reads by:
// editors complete and check by them.
#pragma once

#include <string>

namespace flow {

/// Of job files. What a schema cannot know, such as whether a name is that of a tensor, it takes.
std::string job_schema();

/// Of plans as `flowc build` writes them.
std::string plan_schema();

}  // namespace flow
