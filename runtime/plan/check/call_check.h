// Calls of ops in plans, checked against the ops' records.
#pragma once

#include <vector>

#include "ops/core/spec.h"
#include "runtime/plan/check/location.h"
#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// The record of a primitive; refuses any other op.
const ops::OpSpec& spec_of(const ops::OpRef& op, const Location& location);

/// What shape functions know of a job: its dtypes, its shards, and the rows of the batch that they
/// see.
ops::JobTypes types_of(const Job& job);

ops::Operand operand_of(const Tensor& tensor);

/// The results of a call, with everything checked that a kernel relies on. Refuses, at `location`,
/// operands and attributes that the record or its shape function refuses.
std::vector<ops::Result> check_call(const ops::OpSpec& spec, std::vector<ops::Operand> operands,
                                    const Attributes& attributes, const ops::JobTypes& types,
                                    const Location& location);

}  // namespace flow::plan
