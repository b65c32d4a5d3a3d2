// Steps that all ranks run together, and their errors as one.
#include "runtime/exec/run/execute.h"

#include "runtime/exec/ranks/ranks.h"

namespace flow::exec {

RunResult execute_on_ranks(const Execution& execution, int64_t job) {
  const Ranks* ranks = execution.ranks;
  if (!ranks) return execute(execution);
  if (ranks->leads())
    ranks->send({.kind = Order::Kind::kExecute,
                 .job = job,
                 .first = execution.first,
                 .end = execution.end,
                 .learning_rate = execution.learning_rate});
  RunResult result = execute(execution);
  try {
    ranks->join(result.error, {});
  } catch (const EndedByLeader&) {
    // Rank 0 reports it.
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

}  // namespace flow::exec
