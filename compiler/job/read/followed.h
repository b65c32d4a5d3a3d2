// Values that a run follows: `watch: eval.loss`, and whose tensors they are.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/job/read/job.h"
#include "compiler/job/text/reader.h"

namespace flow::job {

/// Reads `key` (`watch` or `by`), `mode` and `every`. Nothing without `key`, or with a value that
/// is not text. `place`: becomes that of the value.
std::optional<plan::FollowedValue> read_followed(const Fields& fields, std::string_view key,
                                                 FollowedPlace& place);
std::optional<plan::EarlyStopping> read_early_stopping(const Fields& fields, FollowedPlace& place);

/// Finds the job of each value of `job` and which values are better, and reports those that cannot
/// be followed.
void resolve_followed(Reader& reader, const File& file, Job& job);
/// Adds hooks that make the values of `job` to it and to the jobs that it calls.
void add_followed_hooks(File& file, Job& job);

}  // namespace flow::job
