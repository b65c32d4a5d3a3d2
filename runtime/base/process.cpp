// The age and the size of this process.
#include "runtime/base/process.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow {

double process_age() {
  std::string stat;
  try {
    stat = read_text("/proc/self/stat");
  } catch (const RunError&) {
    return 0;
  }
  constexpr size_t kStartTime = 20;  // the field's index after the name, which is in parentheses
  const std::vector<std::string> fields = split(stat.substr(stat.rfind(')') + 1), ' ');
  if (fields.size() <= kStartTime) return 0;
  const double ticks = std::strtod(fields[kStartTime].c_str(), nullptr);
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  rusage usage{};  // which may be what the program had that became this one
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace flow
