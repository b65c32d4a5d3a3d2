// The ops' own examples as jobs, for tests that run them on kernels.
#pragma once

#include <string_view>

#include "runtime/plan/model/plan.h"

namespace flow::test {

/// The job of one call such as "softmax(f32[3,4,2]) axis=1" or "equal(i32[4], i64[4])": inputs
/// `in0`, `in1`, ... from the command line, the call `out`, whose first result is returned, or all
/// in a Tuple. `float64`: every f32 is float64. Dtypes are i8 i32 i64 u8 bool f32 f64; attributes
/// are written as in a job file, lists without spaces.
plan::Job job_of_example(std::string_view example, bool float64);

/// Do the operands and attributes of the call go together?
bool is_valid_example(std::string_view example, bool float64);

/// Does the call have a gradient at all, from a result of the job's float dtype to an input of it?
bool has_gradient(std::string_view example, bool float64);

/// The same job as a Tuple that goes on with the gradients of sum(out * in_cotangent) with respect
/// to the inputs of the job's float dtype, in their order; the cotangent is one more input, of the
/// first result's shape. REQUIRES: has_gradient.
plan::Job gradient_job_of_example(std::string_view example, bool float64);

}  // namespace flow::test
