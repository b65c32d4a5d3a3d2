// A value, or an error that the caller expects, such as a library's refusal.
#pragma once

#include <utility>
#include <variant>

#include "runtime/base/error.h"

namespace flow {

/// As std::expected of C++23, whose `value` throws the error itself.
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

}  // namespace flow
