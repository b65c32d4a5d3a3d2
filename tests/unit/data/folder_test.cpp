// Walks of folders: images, classes, links, and globs of files.
#include "runtime/data/files/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "runtime/base/text.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

struct Tree : FreshDirectory {
  void add(const std::string& name, const std::string& bytes = {}) const {
    make_folders((*this / name).parent_path());
    write_text_atomically(*this / name, bytes);
  }
  void link(const fs::path& target, const std::string& name) const {
    make_folders((*this / name).parent_path());
    fs::create_symlink(target, *this / name);
  }
  std::string images() const {
    std::vector<std::string> names;
    for (const FileState& image : list_images(path()).images) names.push_back(image.name);
    return join(names, " ");
  }
  std::string glob(const std::vector<std::string>& paths) const {
    return join(expand_paths(paths, path()), " ");
  }
};

}  // namespace

TEST_CASE("Images are sorted by the bytes of their paths", "[data][folder]") {
  const Tree tree;
  for (const char* name : {"b/1.jpg", "a.png", "a/2.JPEG", "a/10.Png", "B/x.jpg", "a/c/d.jpg",
                           "\xC3\xA9/1.jpg", "a-b/1.jpg"})
    tree.add(name);
  CHECK(tree.images() ==
        "B/x.jpg a-b/1.jpg a.png a/10.Png a/2.JPEG a/c/d.jpg b/1.jpg \xC3\xA9/1.jpg");
}

TEST_CASE("Hidden names and other files are no images", "[data][folder]") {
  const Tree tree;
  for (const char* name : {"a/1.jpg", ".hidden.jpg", ".git/1.jpg", "a/.x/1.jpg", "a/notes.txt",
                           "a/jpg", "1.jpg.txt", "a/1.gif"})
    tree.add(name);
  REQUIRE(::mkfifo((tree / "pipe.jpg").c_str(), 0600) == 0);
  make_folders(tree / "folder.png");
  CHECK(tree.images() == "a/1.jpg");
  CHECK(list_images(tree.path()).others == 5);
}

TEST_CASE("Classes are all folders directly in the folder, empty ones too", "[data][folder]") {
  const Tree tree;
  tree.add("dog/deep/1.jpg");
  tree.add("0.jpg");
  make_folders(tree / "cat");
  make_folders(tree / ".hidden");
  tree.link(tree / "cat", "bird");
  CHECK(list_images(tree.path()).classes == std::vector<std::string>{"bird", "cat", "dog"});
  CHECK(class_of("dog/deep/1.jpg") == "dog");
  CHECK(class_of("0.jpg").empty());
}

TEST_CASE("Links are followed, to files and to folders", "[data][folder]") {
  const Tree tree, elsewhere;
  elsewhere.add("1.jpg", "12345");
  tree.link(elsewhere.path(), "cat");
  tree.link(elsewhere / "1.jpg", "dog/link.jpg");
  tree.link(tree / "dog", "twin");
  CHECK(tree.images() == "cat/1.jpg dog/link.jpg twin/link.jpg");
  const FileState image = list_images(tree.path()).images[1];
  CHECK(image.size == 5);
  CHECK(image == file_state(tree.path(), "dog/link.jpg"));
}

TEST_CASE("A folder inside itself and a broken link are errors", "[data][folder]") {
  const Tree tree;
  tree.add("a/b/1.jpg");
  tree.link("..", "a/b/up");
  CHECK_THROWS_WITH(list_images(tree.path()),
                    tree.path().string() + "/a/b/up is a folder inside itself");
  fs::remove(tree / "a/b/up");
  tree.link("none", "a/notes.txt");
  CHECK(list_images(tree.path()).others == 1);
  tree.link("none", "a/2.jpg");
  CHECK_THROWS_WITH(list_images(tree.path()),
                    "cannot read " + tree.path().string() + "/a/2.jpg: No such file or directory");
  fs::remove(tree / "a/2.jpg");
  tree.link("3.jpg", "a/3.jpg");
  CHECK_THROWS_AS(list_images(tree.path()), RunError);
}

TEST_CASE("A folder without images, a missing folder and a file are errors", "[data][folder]") {
  const Tree tree;
  tree.add("notes.txt");
  const std::string at = tree.path().string();
  CHECK_THROWS_WITH(list_images(tree.path()),
                    at + " has no images; expected files named .png, .jpg or .jpeg");
  CHECK_THROWS_WITH(list_images(tree / "none"),
                    "cannot read " + at + "/none: No such file or directory");
  CHECK_THROWS_WITH(list_images(tree / "notes.txt"),
                    "cannot read " + at + "/notes.txt: Not a directory");
}

TEST_CASE("Globs are replaced by their files, other paths stay", "[data][folder]") {
  const Tree tree;
  for (const char* name : {"b10.csv", "b2.csv", "a/1.csv", "a/x/2.csv", "a/x/3.txt", "c.txt"})
    tree.add(name);
  CHECK(tree.glob({"b*.csv"}) == "b10.csv b2.csv");
  CHECK(tree.glob({"none.csv", "b*.csv", "b2.csv"}) == "none.csv b10.csv b2.csv b2.csv");
  CHECK(tree.glob({"**/*.csv"}) == "a/1.csv a/x/2.csv b10.csv b2.csv");
  CHECK(tree.glob({"*/*.csv"}) == "a/1.csv");
  CHECK(tree.glob({"*/x/*"}) == "a/x/2.csv a/x/3.txt");
  CHECK(tree.glob({"a/**"}) == "a/1.csv a/x/2.csv a/x/3.txt");
  CHECK(tree.glob({"./a/*.csv"}) == "./a/1.csv");
  CHECK(tree.glob({"a/x/../*.csv"}) == "a/x/../1.csv");
  CHECK(tree.glob({"{a,b}*.csv"}) == "b10.csv b2.csv");
  CHECK(tree.glob({"*{/1,10}.csv"}) == "a/1.csv b10.csv");
  const std::string at = tree.path().string();
  CHECK(tree.glob({at + "/b*"}) == at + "/b10.csv " + at + "/b2.csv");
  CHECK(tree.glob({"plain{1}.csv"}) == "plain{1}.csv");
}

TEST_CASE("A glob enters only folders that may contain matches", "[data][folder]") {
  const Tree tree;
  tree.add("a/1.csv");
  tree.link("..", "a/loop");
  tree.link(".", "self");
  CHECK(tree.glob({"a/*.csv"}) == "a/1.csv");
  CHECK(tree.glob({"a*/*.csv"}) == "a/1.csv");
  CHECK_THROWS_AS(tree.glob({"**/*.csv"}), RunError);
}

TEST_CASE("A glob without matches is an error", "[data][folder]") {
  const Tree tree;
  tree.add("a.csv");
  make_folders(tree / "b.csv");
  CHECK(tree.glob({"*.csv"}) == "a.csv");
  CHECK_THROWS_WITH(tree.glob({"*.txt"}), "no file matches `*.txt`");
  CHECK_THROWS_WITH(tree.glob({"none/*.csv"}), "no file matches `none/*.csv`");
  CHECK_THROWS_WITH(tree.glob({"a.csv/*"}), "no file matches `a.csv/*`");
  CHECK_THROWS_WITH(tree.glob({"{*.csv"}), "invalid glob `{*.csv`: `{` without `}`");
}

TEST_CASE("The state of a file is its name, size and time", "[data][folder]") {
  const Tree tree;
  tree.add("a.csv", "123");
  const FileState before = file_state(tree.path(), "a.csv");
  CHECK(before.name == "a.csv");
  CHECK(before.size == 3);
  const timespec times[2] = {{0, UTIME_OMIT}, {1'700'000'000, 123'456'789}};
  REQUIRE(::utimensat(AT_FDCWD, (tree / "a.csv").c_str(), times, 0) == 0);
  CHECK(file_state(tree.path(), "a.csv").time == 1'700'000'000'123'456'789);
  REQUIRE(::mkfifo((tree / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(file_state(tree.path(), "pipe"), RunError);
  CHECK_THROWS_AS(file_state(tree.path(), "none"), RunError);
}

}  // namespace flow::data
