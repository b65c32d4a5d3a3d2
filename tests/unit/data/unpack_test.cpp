// Streams of plain and packed files: what they contain, and what is refused.
#include "runtime/data/files/unpack.h"

#include <sys/stat.h>
#include <zstd.h>

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/fresh_directory.h"
#include "tests/support/source_files.h"

namespace flow::data {
namespace {

fs::path packed_golden(const std::string& name) {
  return test::source_path("tests/golden/data/shards_" + name);
}

/// The lines "0" to "3999", which both packed files contain.
std::string number_lines() {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += std::to_string(i) + "\n";
  return text;
}

std::string stream_content(const fs::path& path, size_t piece) {
  const auto stream = open_stream(path);
  std::string text;
  std::vector<std::byte> bytes(piece);
  while (const size_t count = stream->read(bytes))
    text.append(reinterpret_cast<const char*>(bytes.data()), count);
  CHECK(stream->read(bytes) == 0);
  return text;
}

struct StreamFolder : FreshDirectory {
  fs::path write(const std::string& name, const std::string& bytes) const {
    write_text_atomically(*this / name, bytes);
    return *this / name;
  }
  std::string refusal(const fs::path& path) const {
    try {
      stream_content(path, 1000);
    } catch (const RunError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string refusal_of(const std::string& bytes) const {
    const std::string text = refusal(write("x.bin", bytes)), folder = path().string() + "/";
    return text.starts_with(folder) ? text.substr(folder.size()) : text;
  }
};

}  // namespace

TEST_CASE("A plain file is its own stream", "[data][unpack]") {
  const StreamFolder folder;
  for (const std::string& text : {std::string(), std::string("a\n\0b", 4), number_lines()})
    for (const size_t piece : {1, 7, 100'000})
      CHECK(stream_content(folder.write("x.txt", text), piece) == text);
}

TEST_CASE("All members of gzip and all frames of zstd are read", "[data][unpack]") {
  for (const size_t piece : {1, 4096, 8890, 8891, 100'000}) {
    CHECK(stream_content(packed_golden("two.gz"), piece) == number_lines());
    CHECK(stream_content(packed_golden("two.zst"), piece) == number_lines());
  }
}

TEST_CASE("A packed file that ends early is refused at every byte", "[data][unpack]") {
  const StreamFolder folder;
  for (const char* name : {"two.gz", "two.zst"}) {
    const std::string whole = read_text(packed_golden(name));
    for (size_t size = 5; size < whole.size(); size += size < 40 ? 1 : 97) {
      const std::string refused = folder.refusal_of(whole.substr(0, size));
      INFO(name << " " << size);
      const bool skipped_only = refused == "accepted" && size == 11;
      CHECK((refused.find("is truncated inside its") != refused.npos || skipped_only));
    }
  }
}

TEST_CASE("A damaged packed file is refused", "[data][unpack]") {
  const StreamFolder folder;
  for (const char* name : {"two.gz", "two.zst"}) {
    std::string bytes = read_text(packed_golden(name));
    bytes[bytes.size() / 3] = static_cast<char>(~bytes[bytes.size() / 3]);
    CHECK(folder.refusal_of(bytes) != "accepted");
    bytes = read_text(packed_golden(name)) + "garbage";
    CHECK(folder.refusal_of(bytes) != "accepted");
  }
  std::string bytes = read_text(packed_golden("two.gz"));
  bytes[bytes.size() - 6] ^= 1;  // the last checksum
  CHECK(folder.refusal_of(bytes) == "x.bin is damaged: incorrect data check");
}

TEST_CASE("A window over 128 MiB is refused before memory is taken", "[data][unpack]") {
  const StreamFolder folder;
  // A frame header (RFC 8878, 3.1.1.1) with a window of 2^31 bytes, and an empty last block.
  const std::string frame("\x28\xB5\x2F\xFD\x00\xA8\x01\x00\x00", 9);
  CHECK(folder.refusal_of(frame) == "x.bin needs a zstd window of more than 128 MiB");
}

TEST_CASE("A missing file, a folder and a pipe are refused without waiting", "[data][unpack]") {
  const StreamFolder folder;
  const fs::path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(folder.refusal(pipe) == pipe.string() + " is a pipe or a device; expected a regular file");
  fs::create_symlink(pipe, folder / "link");
  CHECK(folder.refusal(folder / "link").ends_with("expected a regular file"));
  CHECK(folder.refusal("/dev/null").ends_with("expected a regular file"));
  CHECK(folder.refusal(folder / "none").ends_with("No such file or directory"));
  CHECK(folder.refusal(folder.path()).ends_with("Is a directory"));
}

TEST_CASE("read_all returns a stream up to a limit", "[data][unpack]") {
  const std::string text = number_lines();
  CHECK(read_all(*open_stream(packed_golden("two.zst")), text.size(), "x") == text);
  CHECK_THROWS_WITH(read_all(*open_stream(packed_golden("two.zst")), text.size() - 1, "x"),
                    Catch::Matchers::Contains("x has more than"));
}

TEST_CASE("A file that shrinks while it is read is an error", "[data][unpack]") {
  const StreamFolder folder;
  const fs::path path = folder.write("x.txt", std::string(100'000, 'x'));
  const auto stream = open_stream(path);
  std::array<std::byte, 10> some;
  CHECK(stream->read(some) == some.size());
  fs::resize_file(path, 50);
  std::vector<std::byte> rest(100'000);
  CHECK_THROWS_WITH(stream->read(rest), Catch::Matchers::EndsWith("while it was being read"));
}

}  // namespace flow::data
