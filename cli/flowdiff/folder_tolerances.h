// The tolerances.yaml of a golden folder as rules of a comparison.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/compare/arrays.h"
#include "runtime/compare/tolerance.h"

namespace flow::tolerances {
class TolerancesFile;
}

namespace flow::cli {

class FolderTolerances {
 public:
  /// Reads the file of `golden`, if it has one. REQUIRES: `golden` outlives this.
  explicit FolderTolerances(const compare::Side& golden);
  ~FolderTolerances();

  std::vector<compare::ToleranceRule> rules() const;
  /// Reports what is wrong in the file, also globs that match none of the names and steps that no
  /// array has, on standard error. False after an error.
  bool check(const std::vector<std::string>& names) const;

 private:
  const compare::Side& golden_;
  std::unique_ptr<tolerances::TolerancesFile> file_;  // null where there is none
};

}  // namespace flow::cli
