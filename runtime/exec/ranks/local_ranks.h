// Ranks that are threads of one process: what they exchange is copied from memory to memory.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "runtime/exec/core/collectives.h"

namespace flow::exec {

class LocalRanks {
 public:
  explicit LocalRanks(int size);
  ~LocalRanks();
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  /// For the thread that is this rank.
  Collectives& rank(int rank);
  /// As Collectives::fail, for all ranks.
  void fail(const std::exception_ptr& error);

 private:
  struct World;
  class Rank;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace flow::exec
