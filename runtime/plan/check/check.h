// What must hold of a plan before anything is allocated for it.
#pragma once

#include <string>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Checks indices, shapes, sizes, aliases, lifetimes, names, references and each step against the
/// record of its op (ops/: operand count, dtypes, attributes and their ranges, shapes, batch axes,
/// and what shards may compute).
/// Throws RequestError at the first violation: "PATH: job `train`, step `conv1/conv`: ...".
void check(const Plan& plan, const std::string& path);

}  // namespace flow::plan
