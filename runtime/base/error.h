// Failures that are not flow's: the world failed during a run, or a request does not fit.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/base/exit_code.h"

namespace flow {

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
/// told by flow (memory, a file system) is 3.
int exit_status_of(const std::exception& error);

}  // namespace flow
