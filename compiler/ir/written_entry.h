// What an author wrote as one entry of a graph, for programs that show plans in those terms.
#pragma once

#include <string>

namespace flow {

/// An entry of a job's graph, or of a network that it calls. A repeated entry is there once by
/// itself and once a copy.
struct WrittenEntry {
  std::string name;   // full: "lenet/conv1", "resnet/stage1/0"
  std::string op;     // the op or network that it calls
  std::string where;  // "jobs/lenet.yaml:25:20"
  bool network = false;
};

}  // namespace flow
