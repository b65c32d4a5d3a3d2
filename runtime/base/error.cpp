// Errors as exit statuses.
#include "runtime/base/error.h"

#include "runtime/base/check.h"

namespace flow {

int exit_status_of(const std::exception& error) {
  if (const auto* told = dynamic_cast<const RunError*>(&error)) return told->exit_status();
  constexpr int kRunFailed = 3, kDefect = 70;
  return dynamic_cast<const Defect*>(&error) ? kDefect : kRunFailed;
}

}  // namespace flow
