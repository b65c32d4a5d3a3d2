// Lines for the keys of entries, next to those of their op.
#include "compiler/job/tables/describe_call.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "compiler/ir/describe_ops.h"
#include "compiler/job/tables/tables.h"

namespace flow::job {

std::string describe_call(const ops::OpSpec& op) {
  std::vector<std::pair<std::string, std::string>> of_entries;
  const auto add = [&](const std::vector<KeyDef>& keys) {
    for (const KeyDef& key : keys)
      of_entries.emplace_back(key.name, key.has_default()
                                            ? fmt::format("default {}: {}", key.fallback, key.doc)
                                            : std::string(key.doc));
  };
  add(training_keys(&op));
  add(call_keys());
  return flow::describe(op, of_entries);
}

}  // namespace flow::job
