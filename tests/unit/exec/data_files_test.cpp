// Digests of the data files of a column: what they cover, and which difference is named.
#include <catch2/catch.hpp>

#include "runtime/base/digest.h"
#include "runtime/base/text.h"
#include "runtime/exec/input/input_pipeline.h"
#include "tests/support/fresh_directory.h"

namespace flow::exec {
namespace {

struct Files : FreshDirectory {
  Files() {
    write_text_atomically(*this / "a", "one");
    write_text_atomically(*this / "b", "two");
  }
  DataFile hash(const std::vector<std::string>& names, bool sizes_only = false) const {
    DataPath source{{}, path(), sizes_only};
    for (const std::string& name : names) source.paths.push_back(*this / name);
    return hash_files(source);
  }
};

}  // namespace

TEST_CASE("the digest of a single file is that of its contents", "[exec]") {
  const Files files;
  const DataFile one = files.hash({"a"});
  CHECK(one.digest == digest_of_file(files / "a"));
  CHECK(one.bytes == 3);
  CHECK(one.files.empty());
  fs::rename(files / "a", files / "c");
  CHECK(files.hash({"c"}).digest == one.digest);
}

TEST_CASE("of a large file parts are hashed", "[exec]") {
  const Files files;
  const auto put = [&](uint64_t at) {
    File file = File::create_new(files / "large", files / "large");
    file.write_at((uint64_t{17} << 20) - 1, std::as_bytes(std::span("x", 1)));
    file.write_at(at, std::as_bytes(std::span("y", 1)));
    file.close();
    const std::string digest = files.hash({"large"}).digest;
    CHECK(digest != digest_of_file(files / "large"));
    fs::remove(files / "large");
    return digest;
  };
  // The first and the last MiB count; between them are 62 blocks of 4 KiB.
  CHECK(put(7) != put(8));
  CHECK(put((16 << 20) + 7) != put((16 << 20) + 8));
  CHECK(put((1 << 20) + 7) == put((1 << 20) + 8));
}

TEST_CASE("the digest of several files covers names, sizes and contents", "[exec]") {
  const Files files;
  const DataFile before = files.hash({"a", "b"});
  CHECK(before.bytes == 6);
  CHECK(files.hash({"a", "b"}).digest == before.digest);
  CHECK(first_difference(before, files.hash({"a", "b"})).empty());
  const DataFile swapped = files.hash({"b", "a"});
  CHECK(swapped.digest != before.digest);
  CHECK(first_difference(before, swapped) == "b is at the place of a");
  CHECK(first_difference(before, files.hash({"a"})).empty());  // a single file is not listed
  write_text_atomically(files / "c", "one");
  CHECK(first_difference(before, files.hash({"a", "b", "c"})) == "c is new");
  CHECK(first_difference(files.hash({"a", "b", "c"}), before) == "c is missing");
  const DataFile sizes = files.hash({"a", "b"}, true);
  CHECK(sizes.digest != before.digest);
  write_text_atomically(files / "b", "six");
  CHECK(files.hash({"a", "b"}, true).digest == sizes.digest);
  const DataFile changed = files.hash({"a", "b"});
  CHECK(changed.digest != before.digest);
  CHECK(first_difference(before, changed) ==
        "b has digest " + digest_of_file(files / "b") + "; expected " + before.files[1].digest);
  write_text_atomically(files / "b", "seven");
  CHECK(files.hash({"a", "b"}, true).digest != sizes.digest);
  CHECK(first_difference(before, files.hash({"a", "b"})) == "b has 5 bytes; expected 3");
}

TEST_CASE("a data file that is missing or a folder is refused", "[exec]") {
  const Files files;
  CHECK_THROWS_AS(files.hash({"a", "none"}), RunError);
  CHECK_THROWS_AS(files.hash({"."}), RunError);
}

}  // namespace flow::exec
