// Plans that are kept on disk: they come back whole, or not at all.
#include "runtime/cuda/libraries/plan_cache.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>

#include "tests/support/fresh_directory.h"

namespace flow::test {
namespace {

using cuda::PlanCache;

fs::path only_file(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  REQUIRE(found.size() == 1);
  return found[0];
}

TEST_CASE("a plan comes back for its key alone", "[cuda]") {
  FreshDirectory home;
  const PlanCache cache(home / "a" / "b");
  const std::vector<uint8_t> plan = {0, 255, 10, 0, 7};
  CHECK_FALSE(cache.find("key"));
  cache.store("key", plan);
  CHECK(cache.find("key") == plan);
  CHECK_FALSE(cache.find("ke"));
  CHECK_FALSE(cache.find("other"));
  cache.store("key", {});
  CHECK(cache.find("key") == std::vector<uint8_t>());
}

TEST_CASE("a plan of which a byte was changed, or the end is missing, is none", "[cuda]") {
  FreshDirectory home;
  const PlanCache cache(home.path());
  cache.store("key", std::vector<uint8_t>{1, 2, 3});
  const fs::path path = only_file(home.path());
  const std::string text = read_text(path);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    write_text_atomically(path, changed);
    CHECK_FALSE(cache.find("key"));
    write_text_atomically(path, text.substr(0, i));
    CHECK_FALSE(cache.find("key"));
  }
}

TEST_CASE("a user's plans lie where the user's caches do", "[cuda]") {
  FreshDirectory home;
  const auto keeps_in = [&](const char* caches, const char* home_folder) {
    setenv("HOME", home_folder, 1);
    setenv("XDG_CACHE_HOME", caches, 1);
    PlanCache::of_user("library").store("key", std::vector<uint8_t>{1});
    for (const std::string folder : {"caches", "own/.cache"})
      if (fs::remove_all(home / folder) > 0) return folder;
    return std::string("nowhere");
  };
  const std::string old_home = std::getenv("HOME") ? std::getenv("HOME") : "";
  CHECK(keeps_in((home / "caches").c_str(), (home / "own").c_str()) == "caches");
  CHECK(keeps_in("relative", (home / "own").c_str()) == "own/.cache");
  CHECK(keeps_in("", "relative") == "nowhere");
  setenv("HOME", old_home.c_str(), 1);
  unsetenv("XDG_CACHE_HOME");
}

TEST_CASE("of too many plans the oldest go", "[cuda]") {
  FreshDirectory home;
  const PlanCache cache(home.path(), 4);
  const auto now = fs::file_time_type::clock::now();
  for (int age = 4; age > 0; --age) {
    const std::string key = std::to_string(age);
    const FreshDirectory other;
    PlanCache(other.path()).store(key, std::vector<uint8_t>{1});
    const fs::path path = home / only_file(other.path()).filename().string();
    fs::copy_file(only_file(other.path()), path);
    fs::last_write_time(path, now - std::chrono::hours(age));
  }
  cache.store("new", std::vector<uint8_t>{1});
  CHECK_FALSE(cache.find("4"));
  for (const char* key : {"3", "2", "1", "new"}) CHECK(cache.find(key));
}

TEST_CASE("where nothing can be kept, nothing is", "[cuda]") {
  FreshDirectory home;
  File::create(home / "file").write(std::string_view("no folder"));
  for (const PlanCache& cache : {PlanCache(), PlanCache(home / "file")}) {
    cache.store("key", std::vector<uint8_t>{1});
    CHECK_FALSE(cache.find("key"));
  }
}

}  // namespace
}  // namespace flow::test
