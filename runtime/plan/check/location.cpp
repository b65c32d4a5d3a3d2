// The location of a plan check, for messages.
#include "runtime/plan/check/location.h"

#include "runtime/base/error.h"

namespace flow::plan {

void Location::refuse(const std::string& what) const {
  std::string place = *path_ + ": ";
  if (!job_.empty()) place += fmt::format("job `{}`", job_);
  if (!kind_.empty()) place += fmt::format("{}{} `{}`", job_.empty() ? "" : ", ", kind_, name_);
  if (!job_.empty() || !kind_.empty()) place += ": ";
  throw RequestError(place + what, "recompile the job file with flowc build");
}

}  // namespace flow::plan
