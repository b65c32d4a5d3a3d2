// Information about this process: its age and size, its host, the time, and the variables of its
// launcher.
#include "runtime/base/process.h"

#include <fmt/chrono.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"

namespace flow {

namespace {

/// Returns field `number` of the stat file in proc(5), or an empty string if the system does not
/// provide it.
std::string stat_field(size_t number) {
  std::ifstream file("/proc/self/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  const size_t name_end = stat.rfind(')');  // the end of field 2, which may contain any characters
  if (name_end == std::string::npos) return {};
  const std::vector<std::string> fields = split(stat.substr(name_end), ' ');
  return number - 2 < fields.size() ? fields[number - 2] : std::string();
}

}  // namespace

double process_age() {
  constexpr size_t kStartTime = 22;
  const std::string field = stat_field(kStartTime);
  if (field.empty()) return 0;
  const double ticks = std::strtod(field.c_str(), nullptr);
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::span<char> shown_words() {
  constexpr size_t kArgStart = 48, kArgEnd = 49;
  const auto address = [](size_t field) {  // null if the field cannot be read
    return reinterpret_cast<char*>(std::strtoull(stat_field(field).c_str(), nullptr, 10));
  };
  char *const begin = address(kArgStart), *const end = address(kArgEnd);
  return begin < end ? std::span(begin, end) : std::span<char>();
}

std::string utc_time() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(::time(nullptr)));
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "unknown host";
}

uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  rusage usage{};  // This may be the peak of the program that ran in this process before exec.
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

namespace {

// An entry with "=" is a whole name.
constexpr std::string_view kLauncherPrefixes[] = {"OMPI_",
                                                  "OPAL_",
                                                  "PRTE_",
                                                  "PMI_",
                                                  "PMI2_",
                                                  "PMIX_",
                                                  "HYDI_",
                                                  "HYDRA_",
                                                  "SLURM_",
                                                  "MPIR_",
                                                  "MPI_LOCALRANKID=",
                                                  "MPI_LOCALNRANKS="};

}  // namespace

bool is_of_launcher(const char* assignment) {
  return std::ranges::any_of(kLauncherPrefixes, [text = std::string_view(assignment)](auto prefix) {
    return text.starts_with(prefix);
  });
}

}  // namespace flow
