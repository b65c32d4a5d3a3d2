// What `flowc names` prints.
#pragma once

#include <string>

#include "runtime/exec/weights/name_map.h"
#include "runtime/exec/weights/propose_rules.h"

namespace flow::cli {

struct NamesReport {
  std::string job, weights;
  bool has_rules = false;
  exec::NameMap map;

  /// Is the array a problem? Without rules, arrays without a variable are ignored.
  bool is_wrong(const exec::UnusedArray& array) const { return has_rules && !array.ignored(); }
  /// Could a run load the file?
  bool matches() const;
};

/// Tables, counts, and proposed rules as YAML.
std::string names_text(const NamesReport& report);
std::string names_json(const NamesReport& report);

}  // namespace flow::cli
