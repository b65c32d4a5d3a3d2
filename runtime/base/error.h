// What goes wrong: exit statuses, failures of the world, requests that do not fit, and defects of
// flow itself (FLOW_CHECK, for conditions no input can break).
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
  kCheckFailed = 1,      // arrays differ; a loss, what is saved or checked is not finite
  kRequestWrong = 2,     // usage, job file, input that does not fit
  kRunFailed = 3,        // device, memory, file, hook, label out of range
  kNothingCompared = 4,  // flowdiff found no pair of arrays
  kDefect = 70,          // of ours
};

/// The run failed: a device, memory, a file, data (exit status 3). The message is lower case,
/// without a full stop, names the job-file line where there is one ("lenet.yaml:12:5: ..."),
/// the step where there is one, and the observed value; the hint says what to do.
class RunError : public std::runtime_error {
 public:
  explicit RunError(const std::string& message, std::string hint = {},
                    int exit_status = kRunFailed);
  const std::string& hint() const { return hint_; }
  int exit_status() const { return exit_status_; }
  /// The same, told of `place`: "lenet.yaml:12:5: step `loss`".
  virtual RunError at(std::string_view place) const;
  /// The same with one more thing in its hint.
  RunError hinting(std::string_view more) const;

 private:
  std::string hint_;
  int exit_status_;
};

/// What was asked for is wrong: usage, a plan, input that does not fit the job (exit status 2).
class RequestError : public RunError {
 public:
  explicit RequestError(const std::string& message, std::string hint = {})
      : RunError(message, std::move(hint), kRequestWrong) {}
};

/// The exit status of a program that ends with this error: a defect is 70, what is neither that nor
/// reported by flow (memory, a file system) is 3.
int exit_status_of(const std::exception& error);

/// A value, or an error that the caller expects, such as a library's refusal: as std::expected of
/// C++23, whose `value` throws the error itself.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : result_(std::in_place_index<0>, std::move(value)) {}
  Expected(RunError error) : result_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return result_.index() == 0; }
  /// REQUIRES: there is a value.
  const T& operator*() const { return *std::get_if<0>(&result_); }
  const T* operator->() const { return std::get_if<0>(&result_); }
  /// REQUIRES: there is none.
  const RunError& error() const { return *std::get_if<1>(&result_); }
  T value() && {
    if (!*this) throw error();
    return std::move(*std::get_if<0>(&result_));
  }

 private:
  std::variant<T, RunError> result_;
};

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
