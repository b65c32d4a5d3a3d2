// The event file of a run in the directory of `--tensorboard`: a new one, or what a resumed run
// keeps of the one that it continues.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace flow::exec {

/// tensorflow/core/util/event.proto, without its time. Each function returns an encoded event.
namespace event {
constexpr size_t kTimeBytes = 9;  // wall_time, which comes first

std::string version();
/// Readers forget all that they read before of steps from this one on. `identity`: of the job.
std::string start(std::string_view identity);
/// Everything before it is of the first `steps` steps.
std::string checkpoint(int64_t steps);
/// Around the message of a field: a GraphDef or a Summary.
std::string holding(int field, int64_t step, std::string_view message);
constexpr int kGraph = 4, kSummary = 5;
}  // namespace event

/// What a directory has before the run writes to it.
struct EventFiles {
  std::vector<fs::path> earlier;      // which the new file replaces
  std::vector<fs::path> temporaries;  // of a run that was killed: TensorBoard would read them
  std::string kept;                   // the first bytes of the new file; empty: a fresh one
  fs::path path;                      // of the new file
};

struct EventsRequest {
  fs::path directory;
  std::string identity;   // of the job: resume_hash
  bool replaces = false;  // --force
  bool resumes = false;   // --resume, also where it finds nothing to resume
  int64_t first = 0;      // step
};

/// Looks and reads; writes nothing. RequestError where the directory has events of another run, or
/// cannot be one.
EventFiles find_event_files(const EventsRequest& request);

}  // namespace flow::exec
