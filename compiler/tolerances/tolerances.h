// Declares the reader of tolerances.yaml, which states how much the arrays of a golden folder and
// of a run may differ.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/job/tables/keys.h"
#include "compiler/job/text/reader.h"
#include "runtime/base/file.h"
#include "runtime/plan/model/plan.h"

namespace flow::tolerances {

/// An entry of `arrays:`.
struct Entry {
  struct Steps {
    plan::StepRange range;
    job::Name written;  // such as "10.."
    double relative = 0, absolute = 0;
  };
  job::Name glob;
  double relative = 0, absolute = 0;
  std::vector<Steps> steps;
  std::optional<int64_t> last_step;
  std::optional<double> spread;
  std::string reason;
};

/// The contents of a tolerances file, and the errors in it.
class TolerancesFile {
 public:
  /// Reads the file. Throws RunError if it cannot be read. Errors in its contents become
  /// diagnostics.
  explicit TolerancesFile(const fs::path& path);
  TolerancesFile(const TolerancesFile&) = delete;
  TolerancesFile& operator=(const TolerancesFile&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& name() const { return sources_[0].name(); }  // the path as given
  /// Returns the position of an entry, such as "golden/tolerances.yaml:3:3".
  std::string where(const Entry& entry) const { return sources_.where(entry.glob.span); }
  /// Reports entries whose glob matches none of these names.
  void check_globs(std::span<const std::string> names);
  using StepsOf = std::function<std::vector<int64_t>(const std::string& name)>;
  /// Reports steps of an entry that none of its arrays contains. `steps_of` returns an empty list
  /// for an array without steps, which other code reports.
  void check_steps(std::span<const std::string> names, const StepsOf& steps_of);
  const Diags& diags() const { return diags_; }

 private:
  Sources sources_;
  Diags diags_;
  std::vector<Entry> entries_;
};

/// The keys of the file and of each entry. The reference documentation is generated from them.
const job::Section& file_section();
const job::Section& entry_section();

}  // namespace flow::tolerances
