// NCCL's calls between processes or threads of one machine, for the stand-in for a GPU: each
// message is a file.
#pragma once

#include "runtime/cuda/libraries/nccl.h"
#include "tests/support/cuda/fake_driver.h"

namespace flow::stand_in {

/// Work of this thread, a rank, goes into streams of `driver`.
void use_file_nccl(test::FakeDriver& driver);
/// As cuda::open_nccl. REQUIRES: use_file_nccl was called on each thread.
const cuda::NcclCalls& open_file_nccl();

}  // namespace flow::stand_in
