// Random calls made from the examples in the records of ops.
#pragma once

#include <string>
#include <string_view>

#include "tests/property/kernel_case.h"
#include "tests/support/run_job.h"

namespace flow::test {

/// The call of `op` in the job of a random example: one of its own or, of an op that job files
/// cannot name, one whose gradient has a step of it. Extents and integer dtypes are drawn anew,
/// attributes are the example's, operands what the reference makes of random inputs.
KernelCase example_case(const std::string& op, Random& random);

/// How many numbers of at most 1 go into one element of such a call: those of the largest operand
/// for each element of the result. Ops that are not elementwise may round two that all but take
/// each other away. Functions of wide domains do that too, and their numbers of up to 8 count eight
/// times.
int64_t terms_of_example(const KernelCase& one);

/// Random numbers for the inputs of an example's job, by the record of its op: in its domain, and
/// below the limits of its operands.
Arrays random_inputs(const plan::Job& job, Random& random);
/// The same of an example that may be a layer.
Arrays inputs_of_example(std::string_view example, const plan::Job& job, Random& random);

}  // namespace flow::test
