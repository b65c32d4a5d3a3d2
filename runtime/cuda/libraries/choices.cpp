// Choices by key, in two folders.
#include "runtime/cuda/libraries/choices.h"

#include <fmt/format.h>

#include <utility>

namespace flow::cuda {

Choices::Choices(PlanCache run, PlanCache user, std::string device,
                 std::function<void(const std::string&)> say)
    : run_(std::move(run)),
      user_(std::move(user)),
      device_(std::move(device)),
      say_(std::move(say)) {}

std::optional<std::vector<uint8_t>> Choices::find_in(const PlanCache& cache,
                                                     const std::string& key) const {
  const auto found = cache.find(key);
  if (!found && say_ && cache.is_damaged(key))
    say_(fmt::format("{} is damaged; timing its algorithms again", cache.path_of(key).string()));
  return found;
}

std::optional<std::vector<uint8_t>> Choices::find(const std::string& key) const {
  const std::string full = key + "; " + device_;
  if (auto own = find_in(run_, full)) return own;
  const auto shared = find_in(user_, full);
  if (shared) run_.store(full, *shared);
  return shared;
}

void Choices::store(const std::string& key, std::span<const uint8_t> choice, bool measured) const {
  const std::string full = key + "; " + device_;
  run_.store(full, choice);
  if (measured) user_.store(full, choice);
}

}  // namespace flow::cuda
