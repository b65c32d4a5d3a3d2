// Undoes what a backend sets for the arithmetic of a thread.
#pragma once

#include <cfenv>

namespace flow::exec {

/// C++'s default arithmetic: a backend may flush the smallest numbers to 0 on the compute thread,
/// and what is read here must not depend on that.
class PlainArithmetic {
 public:
  PlainArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&before_); }
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace flow::exec
