// The output of a network without `output:`, when several files write its graph.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "compiler/job/text/reader.h"

namespace flow::job {

/// The default is the last entry of the file that begins the graph: other files and `--set` add
/// entries to it, which must not change silently what the network computes.
class DefaultOutputs {
 public:
  /// Remembers where the graphs of one file end. Called for each file before it is merged.
  void note(const yaml::Node& file);
  /// Writes `output:` where the default is not the last entry of a merged graph, with a warning
  /// that names both. REQUIRES: deletions are finished.
  void write(Reader& reader, yaml::Node& file) const;

 private:
  void write_output(Reader& reader, yaml::Entry& network) const;

  std::map<std::pair<int32_t, uint32_t>, Name> last_;  // by where the graph begins
};

}  // namespace flow::job
