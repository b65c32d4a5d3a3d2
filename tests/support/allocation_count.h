// Counts what each thread of the test program allocates: malloc and its kin, and operator new.
// What oneDNN allocates within a call of its own is not counted: nobody outside can help it.
#pragma once

#include <cstdint>

namespace flow {

/// False under the sanitizers, whose own malloc must stay in place: nothing is counted then.
bool allocations_are_counted();

/// Allocations of the calling thread since it began.
int64_t allocations_of_this_thread();

}  // namespace flow
