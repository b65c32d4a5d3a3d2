// Files: whole reads, updates in place, atomic writes, maps.
#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/file_calls.h"
#include "tests/support/fresh_directory.h"

namespace flow {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// By which this program has the file open; -1 where it has not.
int descriptor_of(const fs::path& path) {
  const fs::path target = fs::canonical(path);
  for (const fs::directory_entry& open : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    if (fs::read_symlink(open.path(), closed_meanwhile) == target)
      return std::stoi(open.path().filename());
  }
  return -1;
}

TEST_CASE("what is written is read back", "[base]") {
  const FreshDirectory directory;
  const fs::path path = directory / "a.txt";
  File file = File::create(path);
  file.write("hello ");
  file.write("world");
  CHECK(file.size() == 11);
  file.close();
  CHECK(descriptor_of(path) == -1);
  CHECK(read_text(path) == "hello world");
}

TEST_CASE("a missing file with a name for shells or browsers gets a hint", "[base]") {
  const auto hint_for = [](const char* path) -> std::string {
    try {
      File::open_read(path);
    } catch (const RunError& error) {
      return error.hint();
    }
    return "none";
  };
  CHECK(hint_for("/tmp/~/x.npy").find("only shells expand `~`") != std::string::npos);
  CHECK(hint_for("https://example.org/x.npy").find("download the file") != std::string::npos);
  CHECK(hint_for("/nowhere/x~/y.npy").empty());
}

TEST_CASE("an update keeps what is there", "[base]") {
  const FreshDirectory directory;
  const fs::path path = directory / "a.txt";
  write_text_atomically(path, "hello world");
  File file = File::open_update(path);
  const std::string word = "there";
  file.write_at(6, std::as_bytes(std::span(word)));
  CHECK(read_text(path) == "hello there");
  file.truncate(5);
  CHECK(read_text(path) == "hello");
}

TEST_CASE("a long file is read whole", "[base]") {
  const FreshDirectory directory;
  const std::string text(200000, 'x');
  write_text_atomically(directory / "long", text);
  CHECK(read_text(directory / "long") == text);
}

TEST_CASE("a failure names the path and the reason", "[base]") {
  const FreshDirectory directory;
  const auto message_of = [](auto action) -> std::string {
    try {
      action();
    } catch (const RunError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string missing = message_of([&] { read_text(directory / "missing"); });
  CHECK(missing ==
        "cannot read " + (directory / "missing").string() + ": No such file or directory");
  CHECK(message_of([&] { read_text(directory.path()); }).find("Is a directory") !=
        std::string::npos);
  CHECK(message_of([&] { File::create(directory / "no" / "where"); }).find("cannot write") == 0);
  CHECK(cannot("write", "x", ENOSPC).hint() == "free disk space, or write to another disk");
  CHECK(cannot("write", "x", EACCES).hint().empty());
}

TEST_CASE("an atomic write replaces the text and leaves no temporary behind", "[base]") {
  const FreshDirectory directory;
  write_text_atomically(directory / "a", "one");
  write_text_atomically(directory / "a", "two");
  CHECK(read_text(directory / "a") == "two");
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("an atomic write goes where a link leads, though nothing be there yet", "[base]") {
  const FreshDirectory directory;
  fs::create_directory(directory / "kept");
  fs::create_symlink("kept/text", directory / "link");
  fs::create_symlink("link", directory / "other");
  for (const char* text : {"one", "two"}) {
    write_text_atomically(directory / "other", text);
    CHECK(fs::is_symlink(directory / "link"));
    CHECK(read_text(directory / "kept/text") == text);
  }
}

TEST_CASE("an atomic write that fails leaves nothing", "[base]") {
  const FreshDirectory directory;
  fs::create_directory(directory / "a");
  CHECK_THROWS_AS(write_text_atomically(directory / "a", "text"), RunError);
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a text is on the disk before it has its name, and its name before the call returns",
          "[base]") {
  const FreshDirectory directory;
  const FileCalls calls(directory.path());
  write_text_atomically(directory / "a", "text");
  CHECK(calls.list() == std::vector<std::string>{"fsync .a.tmp", "rename a", "fsync ."});
}

TEST_CASE("what a file system loses when a file is closed is an error of the write", "[base]") {
  const FreshDirectory directory;
  FileCalls calls(directory.path());
  write_text_atomically(directory / "a", "old");
  calls.fail("close .a.tmp", EDQUOT);
  CHECK_THROWS_WITH(write_text_atomically(directory / "a", "new"),
                    Catch::Contains("cannot write") && Catch::Contains("Disk quota exceeded"));
  CHECK(read_text(directory / "a") == "old");
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("nobody can guess a temporary name, or have it lead elsewhere", "[base]") {
  const FreshDirectory directory;
  const fs::path one = temporary_beside(directory / "a"), other = temporary_beside(directory / "a");
  CHECK(one != other);
  CHECK(one.filename().string().starts_with(".a."));
  CHECK(one.extension() == kTemporarySuffix);
  CHECK(temporary_beside(std::string(255, 'x')).string().size() <= 255);

  write_text_atomically(directory / "precious", "mine");
  fs::create_symlink("precious", directory / "link");
  fs::create_symlink("missing", directory / "broken");
  for (const char* name : {"precious", "link", "broken"})
    CHECK_THROWS_AS(File::create_new(directory / name, directory / name), RunError);
  CHECK(read_text(directory / "precious") == "mine");
  CHECK_FALSE(fs::exists(directory / "missing"));
}

TEST_CASE("a map shows the file, and an empty file is an empty map", "[base]") {
  const FreshDirectory directory;
  write_text_atomically(directory / "a", "hello");
  write_text_atomically(directory / "empty", "");
  MappedFile file(directory / "a");
  CHECK(text_of(file.bytes()) == "hello");
  const MappedFile moved = std::move(file);
  CHECK(text_of(moved.bytes()) == "hello");
  CHECK(MappedFile(directory / "empty").bytes().empty());
}

/// Lets this process have `files` open files for as long as it lives.
class OpenFileLimit {
 public:
  explicit OpenFileLimit(rlim_t files) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit raised{std::max(before_.rlim_cur, std::min(files, before_.rlim_max)),
                        before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
  }
  ~OpenFileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFileLimit(const OpenFileLimit&) = delete;
  OpenFileLimit& operator=(const OpenFileLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("a file that shrinks is reported however many files are mapped", "[base]") {
  const FreshDirectory directory;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const OpenFileLimit limit(4096);
  std::vector<MappedFile> files;
  for (int i = 0; i < 1500; ++i) {
    const fs::path path = directory / std::to_string(i);
    File::create(path).truncate(2 * page);
    files.emplace_back(path);
  }
  files.erase(files.begin() + 700, files.begin() + 800);
  for (const size_t i : {0, 650, 1399}) {
    const std::string name = std::to_string(i < 700 ? i : i + 100);
    File::open_update(directory / name).truncate(0);
    std::byte read{1};
    CHECK_THROWS_WITH(files[i].recovering([&] { read = files[i].bytes()[page]; }),
                      Catch::EndsWith(name + " shrank while it was being read"));
    CHECK(read == std::byte{0});
  }
}

TEST_CASE("maps come and go while another thread's map loses its file", "[base]") {
  const FreshDirectory directory;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  File::create(directory / "kept").truncate(page);
  std::atomic<bool> done = false;
  std::thread others([&] {
    while (!done) {
      const MappedFile kept(directory / "kept");
    }
  });
  for (int i = 0; i < 200; ++i) {
    File::create(directory / "lost").truncate(page);
    const MappedFile lost(directory / "lost");
    File::open_update(directory / "lost").truncate(0);
    CHECK_THROWS_AS(lost.recovering([&] { CHECK(lost.bytes()[0] == std::byte{0}); }), RunError);
  }
  done = true;
  others.join();
}

TEST_CASE("descriptors are not inherited by other programs", "[base]") {
  const FreshDirectory directory;
  const File file = File::create(directory / "a");
  CHECK((fcntl(descriptor_of(directory / "a"), F_GETFD) & FD_CLOEXEC) != 0);
}

}  // namespace
}  // namespace flow
