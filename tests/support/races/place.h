// Where in the source an instruction is.
#pragma once

#include <string>

namespace flow::test {

/// "team.cuh:57"; an address where there is no tool or no debug information to say so.
std::string place_of(const void* code);

}  // namespace flow::test
