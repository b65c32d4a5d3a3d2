// What flow does when it finds itself wrong.
#include "runtime/base/check.h"

namespace flow {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw Defect(fmt::format("{}:{}: check `{}` failed{}{}", file, line, condition,
                           message.empty() ? "" : ": ", message));
}

}  // namespace flow
