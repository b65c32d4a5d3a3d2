// Reads and writes the files of plans and choices. A file contains a checksum of the rest in 16 hex
// digits, the key, a zero byte and the plan. Choices are stored in two folders.
#include "runtime/cuda/libraries/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/base/digest.h"
#include "runtime/base/file_operations.h"

namespace flow::cuda {
namespace {

constexpr size_t kDigits = 16;

}  // namespace

PlanCache PlanCache::of_user(std::string_view name) {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return fs::path(value ? value : "");
  };
  fs::path caches = folder("XDG_CACHE_HOME");
  if (!caches.is_absolute() && folder("HOME").is_absolute()) caches = folder("HOME") / ".cache";
  return caches.is_absolute() ? PlanCache(caches / "flow" / name) : PlanCache();
}

fs::path PlanCache::path_of(std::string_view key) const { return folder_ / digest(key); }

std::optional<std::vector<uint8_t>> PlanCache::find(std::string_view key) const noexcept {
  try {
    const fs::path path = path_of(key);
    if (folder_.empty() || !fs::is_regular_file(path)) return {};
    const std::string text = read_text(path);
    const size_t plan = kDigits + key.size() + 1;
    if (text.size() < plan || std::string_view(text).substr(kDigits, key.size()) != key) return {};
    if (text.substr(0, kDigits) != digest(std::string_view(text).substr(kDigits))) return {};
    return std::vector<uint8_t>(text.begin() + static_cast<std::ptrdiff_t>(plan), text.end());
  } catch (const std::exception&) {
    return {};
  }
}

bool PlanCache::is_damaged(std::string_view key) const noexcept {
  std::error_code unknown;
  return !folder_.empty() && !find(key) && fs::exists(path_of(key), unknown);
}

void PlanCache::make_room() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> plans;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_))
    if (file.is_regular_file()) plans.emplace_back(file.last_write_time(), file.path());
  if (plans.size() < most_) return;
  std::ranges::sort(plans);
  plans.resize(plans.size() - most_ * 3 / 4);
  for (const auto& [time, path] : plans) remove_path(path);
}

void PlanCache::store(std::string_view key, std::span<const uint8_t> plan) const noexcept {
  if (folder_.empty()) return;
  try {
    std::string text(key);
    text += '\0';
    text.append(plan.begin(), plan.end());
    make_folders(folder_);
    make_room();
    write_text_atomically(path_of(key), digest(text) + text);
  } catch (const std::exception&) {  // the next run queries the library again
  }
}

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
