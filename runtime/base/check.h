// What flow does when it finds itself wrong: FLOW_CHECK, for conditions no input can break.
#pragma once

#ifndef __CUDACC__
#include <fmt/format.h>
#endif

#include <stdexcept>
#include <string>

namespace flow {

/// A defect of flow itself (exit status 70). Thrown by FLOW_CHECK alone, caught in `main` alone.
class Defect : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace flow

/// FLOW_CHECK(condition) or FLOW_CHECK(condition, "format {}", value): throws Defect when false.
/// Never for what a user's file, data or machine can cause: those are Diags and RunError.
#ifdef __CUDACC__
// nvcc 13.0 does not compile fmt: the condition has to say it all there.
#define FLOW_CHECK(condition, ...)                              \
  do {                                                          \
    if (!(condition)) [[unlikely]]                              \
      ::flow::check_failed(__FILE__, __LINE__, #condition, {}); \
  } while (false)
#else
#define FLOW_CHECK(condition, ...)                                                         \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::flow::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
#endif
