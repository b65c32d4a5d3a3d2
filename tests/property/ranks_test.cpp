// Ranks as threads of one process: whatever arrives when, the bits are those of one rank.
#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <thread>
#include <vector>

#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/run/backend.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"
#include "tests/support/thread_ranks.h"

using namespace flow;
using namespace flow::test;

