// NCCL's calls between processes of one machine, for the stand-in for a GPU: each message is a
// file.
#pragma once

#include "runtime/cuda/libraries/nccl.h"
#include "tests/support/cuda/fake_driver.h"

namespace flow::stand_in {

/// Work goes into streams of `driver`, the only one of this process.
void use_file_nccl(test::FakeDriver& driver);
/// As cuda::open_nccl. REQUIRES: use_file_nccl was called.
const cuda::NcclCalls& open_file_nccl();

}  // namespace flow::stand_in
