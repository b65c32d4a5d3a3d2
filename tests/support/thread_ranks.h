// Ranks that are threads of one process, for tests of what ranks do together.
#pragma once

#include <functional>
#include <memory>

#include "runtime/exec/core/collectives.h"

namespace flow {

/// Operations take some calls of `test`, and complete in any order, which the seed decides with the
/// threads' timing. Receiving memory holds garbage until then. Defect where ranks start different
/// operations, touch what an operation sends, or test one again that is complete.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size, unsigned seed = 0);
  ~ThreadRanks();

  exec::Collectives& rank(int rank);
  /// Runs `program` on a thread for each rank, then rethrows the first failure. Where one rank
  /// fails, the operations of all others fail too.
  void run(const std::function<void(exec::Collectives&)>& program);

 private:
  struct World;
  class Rank;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace flow
