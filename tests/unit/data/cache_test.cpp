// Caches: what is read back, what makes one unused, and what a failure leaves.
#include "runtime/data/files/cache.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>

#include "runtime/base/text.h"
#include "tests/support/file_calls.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

const CacheSource kCacheSource = {"keys", {{"a.csv", 3, 5}, {"b \xff\n.csv", 4, 6}}};

struct CacheFolder : FreshDirectory {
  /// Writes two columns of `rows` rows, whose values count from `first`.
  void write(const CacheSource& source, int rows, int first = 0) const {
    CacheWriter writer(path(), "d", source, columns());
    fill(writer, rows, first);
    writer.commit({{"bad_rows", 2}});
  }
  static std::vector<CacheColumn> columns() {
    return {{"image", DType::kUInt8, {1, 2}}, {"x", DType::kFloat64, {}}};
  }
  static void fill(CacheWriter& writer, int rows, int first = 0) {
    for (int i = first; i < first + rows; ++i) {
      const uint8_t image[2] = {static_cast<uint8_t>(i), static_cast<uint8_t>(i + 1)};
      const double x = i / 2.0;
      writer.append(0, std::as_bytes(std::span(image)));
      writer.append(1, std::as_bytes(std::span(&x, 1)));
    }
  }
  std::optional<CachedColumns> open(const CacheSource& source = kCacheSource) const {
    return open_cache(path(), "d", source);
  }
  bool is_used() const { return open().has_value(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
};

const std::vector<std::string> kCacheFiles = {"d.image.npy", "d.json", "d.x.npy"};

}  // namespace

TEST_CASE("A cache returns its columns and details", "[data][cache]") {
  const CacheFolder folder;
  CHECK_FALSE(folder.is_used());
  folder.write(kCacheSource, 300'000);
  CHECK(folder.names() == kCacheFiles);
  const auto cached = folder.open();
  REQUIRE(cached);
  CHECK(cached->details["bad_rows"] == 2);
  REQUIRE(cached->columns.size() == 2);
  const io::Rows& image = cached->columns.at("image");
  CHECK(image.shape == Shape({300'000, 1, 2}));
  CHECK(image.dtype == DType::kUInt8);
  CHECK(image.data[599'998] == static_cast<std::byte>(299'999 & 0xFF));
  const Array x = io::read_npy(folder / "d.x.npy");
  CHECK(x.shape() == Shape({300'000}));
  CHECK(x.view().as<double>()[299'999] == 149'999.5);
}

TEST_CASE("The record names all files with sizes and times", "[data][cache]") {
  const CacheFolder folder;
  folder.write(kCacheSource, 1);
  const Json record = plan::parse_json(read_text(folder / "d.json"), "d.json");
  CHECK(record["keys"] == "keys");
  CHECK(record["files"][0] == Json({{"name", "a.csv"}, {"size", 3}, {"time", 5}}));
  CHECK(record["files"][1]["name"] == "b \\xff\\n.csv");
}

TEST_CASE("A cache of no rows and of no files is a cache", "[data][cache]") {
  const CacheFolder folder;
  folder.write({"keys", {}}, 0);
  const auto cached = folder.open({"keys", {}});
  REQUIRE(cached);
  CHECK(cached->columns.at("x").shape == Shape({0}));
}

TEST_CASE("Any change of the source makes a cache unused", "[data][cache]") {
  const CacheFolder folder;
  folder.write(kCacheSource, 2);
  CHECK(folder.is_used());
  std::vector<CacheSource> others(7, kCacheSource);
  others[0].keys = "other";
  others[1].files[0].name = "c.csv";
  others[2].files[1].size = 5;
  others[3].files[1].time = 7;
  others[4].files.pop_back();
  others[5].files.push_back({"c.csv", 1, 1});
  std::swap(others[6].files[0], others[6].files[1]);
  for (const CacheSource& other : others) CHECK_FALSE(folder.open(other).has_value());
  folder.write(others[0], 2);
  CHECK_FALSE(folder.is_used());
  CHECK(folder.open(others[0]).has_value());
}

TEST_CASE("A missing, damaged or foreign file makes a cache unused", "[data][cache]") {
  const CacheFolder folder, other;
  folder.write(kCacheSource, 2);
  other.write(kCacheSource, 2, 7);
  const auto restored = [&](const char* name, const std::function<void(const fs::path&)>& change) {
    fs::copy_file(folder / name, other / "kept", fs::copy_options::overwrite_existing);
    const auto time = fs::last_write_time(folder / name);
    change(folder / name);
    const bool used = folder.is_used();
    fs::remove(folder / name);
    fs::copy_file(other / "kept", folder / name);
    fs::last_write_time(folder / name, time);
    CHECK(folder.is_used());
    return used;
  };
  for (const std::string& name : kCacheFiles) {
    INFO(name);
    CHECK_FALSE(restored(name.c_str(), [](const fs::path& path) { fs::remove(path); }));
    CHECK_FALSE(restored(name.c_str(), [](const fs::path& path) {
      fs::resize_file(path, fs::file_size(path) - 3);
    }));
    CHECK_FALSE(restored(name.c_str(), [](const fs::path& path) { fs::resize_file(path, 0); }));
    CHECK_FALSE(
        restored(name.c_str(), [&](const fs::path& path) { fs::rename(other / name, path); }));
  }
}

TEST_CASE("Records that another program wrote are not trusted", "[data][cache]") {
  const CacheFolder folder;
  folder.write(kCacheSource, 2);
  const std::string whole = read_text(folder / "d.json");
  const std::string begin = whole.substr(0, whole.find("\"columns\""));
  for (const char* end :
       {"", "}", "\"columns\": 1, \"details\": 1}", "\"columns\": {\"x\": 1}, \"details\": 1}",
        "\"columns\": {\"../x\": {\"size\": 1, \"time\": 1}}, \"details\": 1}",
        "\"columns\": {\"x\": {\"size\": \"1\", \"time\": 1}}, \"details\": 1}", "\"columns\": {}}",
        "\"details\": [[[[[[[["}) {
    write_text_atomically(folder / "d.json", begin + end);
    CHECK_FALSE(folder.is_used());
  }
  write_text_atomically(folder / "d.json", whole);
  CHECK(folder.is_used());
  fs::remove(folder / "d.json");
  REQUIRE(::mkfifo((folder / "d.json").c_str(), 0600) == 0);
  CHECK_THROWS_AS(folder.is_used(), RunError);
}

TEST_CASE("Columns of two runs are never mixed", "[data][cache]") {
  const CacheFolder folder;
  // Two writers of different keys; the second one commits while the first one does.
  CacheSource second = kCacheSource;
  second.keys = "second";
  folder.write(kCacheSource, 2);
  const std::string record = read_text(folder / "d.json");
  folder.write(second, 2, 7);
  write_text_atomically(folder / "d.json", record);
  CHECK_FALSE(folder.is_used());
}

TEST_CASE("An interrupted writer leaves the old cache, or an unused one", "[data][cache]") {
  const CacheFolder folder;
  folder.write(kCacheSource, 2);
  {
    CacheWriter writer(folder.path(), "d", kCacheSource, CacheFolder::columns());
    CacheFolder::fill(writer, 3);
    CHECK(folder.names().size() == 5);
    CHECK(folder.is_used());
  }
  CHECK(folder.names() == kCacheFiles);
  CHECK(folder.is_used());
  FileCalls calls(folder.path());
  calls.fail("rename d.x.npy", EIO);
  CHECK_THROWS_AS(folder.write(kCacheSource, 3), RunError);
  CHECK(folder.names() == kCacheFiles);
  CHECK_FALSE(folder.is_used());
}

namespace {

/// A disk that is full after some writes.
class FullDisk : public FileObserver {
 public:
  explicit FullDisk(int writes) : writes_(writes), before_(observe_files(this)) {}
  ~FullDisk() override { observe_files(before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  long make(const FileOperation& operation, const std::function<long()>& call) override {
    if (operation.kind != FileOperation::Kind::kWrite || writes_-- > 0) return call();
    errno = ENOSPC;
    return -1;
  }

 private:
  int writes_;
  FileObserver* const before_;
};

}  // namespace

TEST_CASE("A full disk is an error that leaves nothing", "[data][cache]") {
  const CacheFolder folder;
  const auto error_text = [&](int rows) -> std::string {
    try {
      folder.write(kCacheSource, rows);
    } catch (const RunError& error) {
      return error.what();
    }
    return "written";
  };
  const std::string expected = ": No space left on device";
  // Small columns take two writes each, and the record takes one; large ones are written earlier.
  for (int writes = 0; writes < 4; ++writes) {
    const FullDisk disk(writes);
    CHECK(error_text(3).ends_with(expected));
    CHECK(folder.names().empty());
    CHECK(error_text(300'000).ends_with(expected));
    CHECK(folder.names().empty());
  }
  {
    FileCalls calls(folder.path());
    calls.fail("close .d.x.npy.tmp", ENOSPC);
    CHECK(error_text(3) == "cannot write " + (folder / "d.x.npy").string() + expected);
  }
  CHECK(folder.names().empty());
  {
    const FullDisk disk(4);
    CHECK(error_text(3).ends_with("d.json" + expected));
  }
  CHECK_FALSE(folder.is_used());
}

TEST_CASE("Contents are on the disk before names refer to them", "[data][cache]") {
  const CacheFolder folder;
  FileCalls calls(folder.path());
  folder.write(kCacheSource, 1);
  const std::vector<std::string> expected = {"fsync .d.image.npy.tmp",
                                             "fsync .d.x.npy.tmp",
                                             "rename d.image.npy",
                                             "rename d.x.npy",
                                             "fsync .d.json.tmp",
                                             "rename d.json",
                                             "fsync ."};
  CHECK(calls.list() == expected);
}

TEST_CASE("Temporary files of killed runs are removed after a day", "[data][cache]") {
  const CacheFolder folder;
  for (const char* name : {".d.x.npy.0123456789abcdef.tmp", ".d.y.npy.0123456789abcdef.tmp",
                           ".e.x.npy.0123456789abcdef.tmp"})
    write_text_atomically(folder / name, "");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(25);
  fs::last_write_time(folder / ".d.x.npy.0123456789abcdef.tmp", old);
  fs::last_write_time(folder / ".e.x.npy.0123456789abcdef.tmp", old);
  folder.write(kCacheSource, 1);
  CHECK(folder.names() == std::vector<std::string>{".d.y.npy.0123456789abcdef.tmp",
                                                   ".e.x.npy.0123456789abcdef.tmp", "d.image.npy",
                                                   "d.json", "d.x.npy"});
}

}  // namespace flow::data
