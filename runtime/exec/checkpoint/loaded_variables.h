// Variables of one or several files, by the names of a job.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/weights/name_map.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// What several files hold. Of a name that several have, the last one counts.
class JoinedVariables : public StoredVariables {
 public:
  /// REQUIRES: there is one.
  explicit JoinedVariables(std::vector<std::unique_ptr<StoredVariables>> parts);

  const fs::path& path() const override { return path_; }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  bool is_replaced() const override;
  bool has_names_of_flow() const override;

 private:
  /// A variable, and the part that has it.
  struct Found {
    const StoredVariables* part;
    Item item;
  };
  std::vector<std::unique_ptr<StoredVariables>> parts_;
  std::map<std::string, Found> found_;
  fs::path path_;  // all of them, for messages
};

/// What variables are read from.
struct LoadedPath {
  fs::path path;
  std::string where;  // who names it: a place in the job file, "--load"
};

/// Those of `flags`, the values of --load; without them the job's own, below `root`. Nothing where
/// "none" is the only one; RequestError where it is one of several.
std::vector<LoadedPath> loaded_paths(const plan::Job& job, const fs::path& root,
                                     const std::vector<std::string>& flags);

/// Opens each path (see open_variables). Averages in the place of the variables that have one,
/// where they are asked for: RequestError where there are several paths. REQUIRES: there is one.
std::unique_ptr<StoredVariables> open_joined(const std::vector<LoadedPath>& paths, bool ema);

/// The same by the names of the job's variables: files of other programs by its rules for names.
/// RequestError as MappedVariables; of several files, each may lack variables.
std::unique_ptr<StoredVariables> open_by_rules(const std::vector<LoadedPath>& paths, bool ema,
                                               const plan::Job& job,
                                               const std::vector<WantedVariable>& wanted,
                                               const std::vector<std::string>& optional);

}  // namespace flow::exec
