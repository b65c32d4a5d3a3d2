// Errors: exit statuses, failures of a run, invalid requests, and defects of flow (FLOW_CHECK, for
// conditions that no input can violate).
#pragma once

#ifndef __CUDACC__
#include <fmt/format.h>
#endif

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace flow {

/// The exit statuses of all programs.
enum ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,      // arrays differ, or a loss, saved or checked value is not finite
  kRequestWrong = 2,     // wrong usage, job file or input
  kRunFailed = 3,        // device, memory, file or hook failed, or a label is out of range
  kNothingCompared = 4,  // flowdiff found no pair of arrays
  kDefect = 70,          // a defect of flow
};

/// The run failed because of a device, memory, a file or data (exit status 3). The message begins
/// in lower case, has no full stop, and states the observed value, and if they are known the line
/// of the job file ("lenet.yaml:12:5: ...") and the step. The hint says what to do.
class RunError : public std::runtime_error {
 public:
  explicit RunError(const std::string& message, std::string hint = {},
                    int exit_status = kRunFailed);
  const std::string& hint() const { return hint_; }
  int exit_status() const { return exit_status_; }
  /// Returns the error with `place` before its message: "lenet.yaml:12:5: step `loss`".
  virtual RunError at(std::string_view place) const;
  /// Returns the error with `more` added to its hint.
  RunError hinting(std::string_view more) const;

 private:
  std::string hint_;
  int exit_status_;
};

/// The request is wrong: the usage, a plan, or input that does not match the job (exit status 2).
class RequestError : public RunError {
 public:
  explicit RequestError(const std::string& message, std::string hint = {})
      : RunError(message, std::move(hint), kRequestWrong) {}
};

/// Returns the exit status of a program that ends with this error: 70 for a defect, the status of a
/// RunError, and 3 for any other error, such as one of memory or a file system.
int exit_status_of(const std::exception& error);

/// A value, or an error that the caller expects, such as the refusal of a library. It resembles
/// std::expected of C++23, but its `value` throws the error itself.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : result_(std::in_place_index<0>, std::move(value)) {}
  Expected(RunError error) : result_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return result_.index() == 0; }
  /// REQUIRES: there is a value.
  const T& operator*() const { return *std::get_if<0>(&result_); }
  const T* operator->() const { return std::get_if<0>(&result_); }
  /// REQUIRES: there is no value.
  const RunError& error() const { return *std::get_if<1>(&result_); }
  T value() && {
    if (!*this) throw error();
    return std::move(*std::get_if<0>(&result_));
  }

 private:
  std::variant<T, RunError> result_;
};

/// A defect of flow (exit status 70). It is only thrown by FLOW_CHECK and only caught in `main`.
class Defect : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace flow

/// FLOW_CHECK(condition) or FLOW_CHECK(condition, "format {}", value) throws Defect if the
/// condition is false. Do not use it for what a user's file, data or machine can cause; use Diags
/// and RunError for those.
#ifdef __CUDACC__
// nvcc 13.0 does not compile fmt. For nvcc, the message therefore contains only the condition.
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
