// tolerances.yaml: how far apart the arrays of a golden folder and of a run may be.
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
    job::Name written;  // "10.."
    double relative = 0, absolute = 0;
  };
  job::Name glob;
  double relative = 0, absolute = 0;
  std::vector<Steps> steps;
  std::optional<int64_t> last_step;
  std::optional<double> spread;
  std::string reason;
};

/// A file as it was read, with what is wrong in it.
class TolerancesFile {
 public:
  /// RunError when it cannot be read; what is wrong in it becomes messages.
  explicit TolerancesFile(const fs::path& path);
  TolerancesFile(const TolerancesFile&) = delete;
  TolerancesFile& operator=(const TolerancesFile&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& name() const { return sources_[0].name(); }  // the path as given
  /// "golden/tolerances.yaml:3:3"
  std::string where(const Entry& entry) const { return sources_.where(entry.glob.span); }
  /// Reports entries whose glob matches none of these names.
  void check_globs(std::span<const std::string> names);
  using StepsOf = std::function<std::vector<int64_t>(const std::string& name)>;
  /// Reports steps of an entry that none of the arrays has which it matches. `steps_of`: empty
  /// where an array has none, which is another mistake.
  void check_steps(std::span<const std::string> names, const StepsOf& steps_of);
  const Diags& diags() const { return diags_; }

 private:
  Sources sources_;
  Diags diags_;
  std::vector<Entry> entries_;
};

/// The keys of the file, and of each entry: the reference shows them.
const job::Section& file_section();
const job::Section& entry_section();

}  // namespace flow::tolerances
