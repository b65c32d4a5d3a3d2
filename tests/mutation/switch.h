// Chooses at run time which planted defect a program has: FLOW_MUTANT=N. Included only by the
// copies of source files that tests/mutation/run.py writes.
#pragma once

#include <cstdlib>

namespace flow {

inline bool mutant(int number) {
  static const int chosen = [] {
    const char* text = std::getenv("FLOW_MUTANT");
    return text ? std::atoi(text) : 0;
  }();
  return chosen == number;
}

}  // namespace flow
