// Digests of data files: which bytes count.
#include "runtime/data/files/digest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <set>

#include "runtime/base/digest.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

constexpr size_t kMebibyte = 1 << 20;

struct DigestFolder : FreshDirectory {
  void write(const std::string& name, const std::string& bytes) const {
    write_text_atomically(*this / name, bytes);
  }
  std::string digest(const std::string& bytes) const {
    write("x", bytes);
    return digest_of_samples(*this / "x");
  }
};

std::string digest_of_all(const std::string& bytes) {
  ContentDigest digest;
  digest.add(std::as_bytes(std::span(bytes)));
  return digest.text();
}

}  // namespace

TEST_CASE("Files of up to 16 MiB count whole", "[data][digest]") {
  const DigestFolder folder;
  std::string bytes(16 * kMebibyte, 'x');
  CHECK(folder.digest(bytes) == digest_of_all(bytes));
  CHECK(folder.digest("") == digest_of_all(""));
}

TEST_CASE("Of larger files, both ends and 62 blocks between count", "[data][digest]") {
  const DigestFolder folder;
  std::string bytes(16 * kMebibyte + 12'345, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
  // The blocks are found by division, independently of how the product steps through them.
  std::string samples = bytes.substr(0, kMebibyte);
  const size_t gap = (bytes.size() - 2 * kMebibyte - 62 * 4096) / 63;
  for (size_t i = 1; i <= 62; ++i)
    samples += bytes.substr(kMebibyte + i * gap + (i - 1) * 4096, 4096);
  samples += bytes.substr(bytes.size() - kMebibyte);
  CHECK(folder.digest(bytes) == digest_of_all(samples));
  bytes[kMebibyte + 100] ^= 1;
  CHECK(folder.digest(bytes) == digest_of_all(samples));
  bytes[kMebibyte - 1] ^= 1;
  CHECK(folder.digest(bytes) != digest_of_all(samples));
}

TEST_CASE("Names, sizes and contents count, times do not", "[data][digest]") {
  const FileRecord a{{"a", 1, 5}, "00"}, b{{"b", 1, 5}, "11"};
  const auto digest = [](std::vector<FileRecord> files) { return digest_of_files(files); };
  std::set<std::string> all = {digest({}), digest({a}), digest({a, b}), digest({b, a})};
  FileRecord other = a;
  other.state.time = 6;
  CHECK(digest({other}) == digest({a}));
  other.state.size = 2;
  all.insert(digest({other}));
  other = a;
  other.digest = "01";
  all.insert(digest({other}));
  other.digest.clear();
  all.insert(digest({other}));
  other.state.name = "a0";
  all.insert(digest({other}));
  CHECK(all.size() == 8);
}

TEST_CASE("A digest is computed again only if the state differs", "[data][digest]") {
  const DigestFolder folder;
  folder.write("x", "abc");
  const FileRecord first = record_of(folder.path(), "x", nullptr);
  CHECK(first.digest == digest_of_all("abc"));
  FileRecord claimed = first;
  claimed.digest = "claimed";
  CHECK(record_of(folder.path(), "x", &claimed).digest == "claimed");
  claimed.state.time += 1;
  CHECK(record_of(folder.path(), "x", &claimed).digest == digest_of_all("abc"));
  claimed = first;
  claimed.state.name = "y";
  claimed.digest = "claimed";
  CHECK(record_of(folder.path(), "x", &claimed).digest == digest_of_all("abc"));
}

TEST_CASE("A file that changes or disappears during a run is an error", "[data][digest]") {
  const DigestFolder folder;
  folder.write("x", "abc");
  const FileState before = file_state(folder.path(), "x");
  require_unchanged(folder.path(), before);
  folder.write("x", "abcd");
  CHECK_THROWS_WITH(
      require_unchanged(folder.path(), before),
      Catch::Matchers::EndsWith("/x changed while it was being read: found 4 bytes, expected 3"));
  folder.write("x", "abc");
  const timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (folder / "x").c_str(), times, 0) == 0);
  CHECK_THROWS_WITH(require_unchanged(folder.path(), before),
                    Catch::Matchers::EndsWith("its time is another"));
  fs::remove(folder / "x");
  CHECK_THROWS_AS(require_unchanged(folder.path(), before), RunError);
  REQUIRE(::mkfifo((folder / "x").c_str(), 0600) == 0);
  CHECK_THROWS_AS(digest_of_samples(folder / "x"), RunError);
}

}  // namespace flow::data
