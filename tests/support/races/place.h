// Where in the source an instruction is.
#pragma once

#include <string>

namespace flow::test {

/// "team.cuh:57"; the address, without a tool or debug information.
std::string place_of(const void* code);

}  // namespace flow::test
