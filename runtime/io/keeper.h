// Ends the commands of a run whose own process is killed.
#pragma once

#include <sys/types.h>

#include "runtime/base/file.h"

namespace flow::io {

/// A small process beside this one. It knows the process groups that commands lead, and ends them
/// once this process is gone, however that came. A parent-death signal would reach the leaders of
/// the groups only, and follows the thread that started them.
class Keeper {
 public:
  /// Forks, so do this early: what this process holds now stays in memory twice once it changes.
  /// RunError when it cannot.
  Keeper();
  /// Waits for its end. REQUIRES: all groups are forgotten or may be ended.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// A child writes its pid_t here when it has a group of its own.
  int door() const { return door_.get(); }
  /// The group has ended.
  void forget(pid_t group) const;

 private:
  Descriptor door_;
  pid_t pid_ = -1;
};

/// Seconds between asking a group to end and killing it.
inline constexpr int kGrace = 2;

}  // namespace flow::io
