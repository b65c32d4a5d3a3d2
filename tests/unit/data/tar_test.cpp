// Shards: samples of archives that Python's tarfile wrote, and everything that is fatal.
#include "runtime/data/files/tar.h"

#include <sys/stat.h>

#include <array>
#include <catch2/catch.hpp>

#include "runtime/plan/json/json.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/source_files.h"
#include "tests/support/tar_bytes.h"

namespace flow::data {
namespace {

TarIndex tar_index(const std::string& bytes) {
  return TarIndex(std::as_bytes(std::span(bytes)), "s.tar");
}

std::string tar_refusal(const std::string& bytes) {
  try {
    tar_index(bytes);
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

/// The samples as text: "key: field field; key: field".
std::string sample_text(const TarIndex& index) {
  std::string text;
  for (size_t i = 0; i < index.size(); ++i) {
    text += std::string(i > 0 ? "; " : "") + std::string(index.key(i)) + ":";
    for (const TarField& field : index.fields(i)) text += " " + index.name_of(field);
  }
  return text;
}

std::string sample_text(const std::string& bytes) { return sample_text(tar_index(bytes)); }

}  // namespace

TEST_CASE("A shard has the samples that Python finds in it, in all formats", "[data][tar]") {
  const Json golden =
      plan::parse_json(read_text(test::source_path("tests/golden/data/shards.json")), "shards");
  for (const auto& [format, expected] : golden["samples"].items()) {
    const TarShard shard(test::source_path("tests/golden/data/shards_" + format + ".tar"));
    INFO(format);
    REQUIRE(shard.index().size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(shard.index().key(i) == expected[i]["key"].get<std::string>());
      const auto fields = shard.index().fields(i);
      REQUIRE(fields.size() == expected[i]["fields"].size());
      for (size_t k = 0; k < fields.size(); ++k) {
        const Json& field = expected[i]["fields"][k];
        CHECK(shard.index().name_of(fields[k]) == field[0].get<std::string>());
        CHECK(fields[k].offset == field[1].get<uint64_t>());
        CHECK(fields[k].size == field[2].get<uint64_t>());
      }
    }
    CHECK(shard.bytes(shard.index().fields(0)[0]).size() == 7);
  }
}

TEST_CASE("The first present field of a list is found", "[data][tar]") {
  const TarIndex shard =
      tar_index(tar_member("a.png", "1") + tar_member("a.JPG", "22") + tar_end());
  const std::array<std::string, 2> both = {"jpg", "png"};
  REQUIRE(shard.find(0, both));
  CHECK(shard.find(0, both)->size == 2);
  const std::array<std::string, 1> none = {"cls"};
  CHECK_FALSE(shard.find(0, none));
}

TEST_CASE("Keys and fields follow the first dot of the base name", "[data][tar]") {
  CHECK(sample_text(tar_member("./a.b/c.X.PnG", "") + tar_member("a.b/c.x", "") + tar_end()) ==
        "./a.b/c: x.png; a.b/c: x");
  CHECK(sample_text(tar_member("a.", "") + tar_member("__a.b", "") + tar_end()) == "a: ; __a: b");
  CHECK(sample_text(tar_member("a.x", "") + tar_member("d/", "", '5') + tar_member(".h.x", "") +
                    tar_member("d/none", "") + tar_member("d/__m__.x", "") + tar_member("a.y", "") +
                    tar_end()) == "a: x y");
}

TEST_CASE("The end of a shard is two blocks of zeros or the end of the file", "[data][tar]") {
  const std::string one = tar_member("a.x", "1");
  CHECK(sample_text(one) == "a: x");
  CHECK(sample_text(one + tar_end()) == "a: x");
  CHECK(sample_text(one + tar_end() + "anything") == "a: x");
  CHECK(sample_text(one + std::string(512, '\0')) == "a: x");
  CHECK(sample_text(tar_end()).empty());
  CHECK(tar_refusal(one + std::string(512, '\0') + one) ==
        "s.tar: offset 1024: found one block of zeros; expected two at the end of the archive");
  CHECK(tar_refusal(one + std::string(511, '\0')) ==
        "s.tar: offset 1024: the end is missing: found 511 bytes; expected a header of 512");
  CHECK(tar_refusal(one.substr(0, 600)) ==
        "s.tar: offset 0: the end is missing: member `a.x` ends inside its last block");
}

TEST_CASE("A member past the end is fatal", "[data][tar]") {
  CHECK(tar_refusal(TarHeader("a.x", 2000).bytes() + std::string(1024, 'x')) ==
        "s.tar: offset 0: member `a.x` has 2000 bytes, but the archive ends after 1024");
  const std::string largest("\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12);
  CHECK(tar_refusal(TarHeader("a.x").set(124, largest).bytes() + tar_end()) ==
        "s.tar: offset 0: member `a.x` has 18446744073709551615 bytes, but the archive ends after "
        "1024");
  CHECK(tar_refusal(tar_member("a.x", "") + pax_header("size", "18446744073709551615") +
                    tar_member("b.x", "") + tar_end())
            .starts_with("s.tar: offset 1536: member `b.x` has 18446744073709551615 bytes"));
}

TEST_CASE("Wrong checksums and numbers are fatal", "[data][tar]") {
  CHECK(tar_refusal(tar_member("a.x", "") + TarHeader("b.x").bytes(1))
            .starts_with("s.tar: offset 512: wrong header checksum: found "));
  CHECK(tar_refusal(std::string(512, 'x')) ==
        "s.tar: offset 0: invalid checksum in a header; expected an octal number");
  for (const char* size : {"00000000008", "-0000000001", "1 1x       ", "\xff\xff\xff\xff"}) {
    const std::string text = tar_refusal(TarHeader("a.x").set(124, size).bytes() + tar_end());
    INFO(size);
    if (std::string(size) != "1 1x       ")
      CHECK(text == "s.tar: offset 0: invalid size in a header; expected an octal number");
  }
  const std::string beyond("\x80\0\0\1\0\0\0\0\0\0\0\0", 12);
  CHECK(tar_refusal(TarHeader("a.x").set(124, beyond).bytes() + tar_end()) ==
        "s.tar: offset 0: invalid size in a header; expected an octal number");
}

TEST_CASE("Sizes in binary and signed checksums are read", "[data][tar]") {
  const std::string one("\x80\0\0\0\0\0\0\0\0\0\0\1", 12);
  CHECK(tar_index(TarHeader("a.x").set(124, one).bytes() + tar_data("x")).fields(0)[0].size == 1);
  // The name's byte 0xE9 counts as 233, or as -23 in historic programs.
  CHECK(sample_text(TarHeader("\xE9.x").bytes(-256)) == "\xE9: x");
  CHECK(tar_refusal(TarHeader("\xE9.x").bytes(-255)) != "accepted");
}

TEST_CASE("Links, devices, sparse files and unknown types are fatal", "[data][tar]") {
  const auto of_type = [](char type) { return tar_refusal(tar_member("d/a.x", "", type)); };
  for (const char type : {'1', '2'})
    CHECK(of_type(type) == "s.tar: offset 0: member `d/a.x` is a link; expected a file");
  for (const char type : {'3', '4', '6'})
    CHECK(of_type(type) ==
          "s.tar: offset 0: member `d/a.x` is a device or a pipe; expected a file");
  CHECK(of_type('S') == "s.tar: offset 0: member `d/a.x` is a sparse file; expected a file");
  CHECK(of_type('M') ==
        "s.tar: offset 0: member `d/a.x` is of the unknown type 0x4d; expected a file");
  CHECK(tar_refusal(pax_header("GNU.sparse.major", "1") + tar_member("a.x", "")) ==
        "s.tar: offset 1024: member `a.x` is a sparse file; expected a file");
  CHECK(tar_refusal(tar_member("long", std::string("target\0", 7), 'K') +
                    tar_member("a.x", "", '2')) ==
        "s.tar: offset 1024: member `a.x` is a link; expected a file");
  for (const char type : {'0', '7', '\0'}) CHECK(of_type(type) == "accepted");
}

TEST_CASE("Absolute names and names with .. are fatal, also of folders and from pax",
          "[data][tar]") {
  CHECK(tar_refusal(tar_member("/a.x", "")) ==
        "s.tar: offset 0: member `/a.x` has an absolute name");
  for (const char* name : {"..", "../a.x", "a/../b.x", "a/.."}) {
    CHECK(tar_refusal(tar_member(name, "", '5')).ends_with("has `..` in its name"));
    CHECK(tar_refusal(pax_header("path", name) + tar_member("a.x", ""))
              .ends_with("has `..` in its name"));
    CHECK(tar_refusal(tar_member("long", name, 'L') + tar_member("a.x", ""))
              .ends_with("has `..` in its name"));
  }
  CHECK(sample_text(tar_member("a../..b..c", "") + tar_member("...", "") +
                    tar_member("b..x", "")) == "b: .x");
  CHECK(tar_refusal(tar_member("", "")) == "s.tar: offset 0: a member has no name");
}

TEST_CASE("Extended headers are checked", "[data][tar]") {
  const std::string member = tar_member("b.x", "");
  const auto record = [&](const std::string& text) {
    return tar_refusal(tar_member("pax", text, 'x') + member);
  };
  for (const char* wrong : {"9", "x path=a\n", "99 path=a\n", "0 path=a\n", "8 path=a\n", "3 =\n",
                            "-9 path=a\n", "99999999999999999999 path=a\n", "10 path=ab"})
    CHECK(record(wrong) == "s.tar: offset 0: a record of an extended header has a wrong length");
  CHECK(record("8 paths\n") == "s.tar: offset 0: a record of an extended header has no key");
  CHECK(record("6 =ab\n") == "s.tar: offset 0: a record of an extended header has no key");
  CHECK(record("11 size=1x\n") == "s.tar: offset 0: `1x` is not a size in an extended header");
  CHECK(record(std::string("12 path=a\0b\n", 12)) ==
        "s.tar: offset 0: a member name contains a zero byte");
  CHECK(tar_refusal(pax_header("path", "c.x", 'g') + member) ==
        "s.tar: offset 0: a global extended header sets `path`");
  CHECK(sample_text(pax_header("comment", "hello", 'g') + member) == "b: x");
  CHECK(sample_text(pax_header("path", "c.x") + pax_header("mtime", "1") + member + member) ==
        "c: x; b: x");
  CHECK(tar_refusal(pax_header("path", "c.x") + tar_end()) ==
        "s.tar: offset 1024: the archive ends after an extended header; expected its member");
  for (const char type : {'x', 'g', 'L', 'K'})
    CHECK(tar_refusal(tar_member("pax", std::string((1 << 20) + 1, 'x'), type) + member) ==
          "s.tar: offset 0: an extended header has 1048577 bytes; expected at most 1048576");
}

TEST_CASE("Names come from pax, else from GNU tar, else from the header", "[data][tar]") {
  const std::string long_name = tar_member("long", std::string("l.x\0", 4), 'L');
  CHECK(sample_text(long_name + tar_member("a.x", "")) == "l: x");
  CHECK(sample_text(pax_header("path", "p.x") + long_name + tar_member("a.x", "")) == "p: x");
  CHECK(sample_text(long_name + pax_header("path", "p.x") + tar_member("a.x", "")) == "p: x");
  CHECK(sample_text(TarHeader("a.x").set(345, "dir").bytes()) == "dir/a: x");
  // GNU tar stores times where ustar has the prefix.
  CHECK(sample_text(TarHeader("a.x").set(257, "ustar  ").set(345, "123").bytes()) == "a: x");
  CHECK(sample_text(TarHeader("a.x").set(257, std::string(8, '\0')).set(345, "123").bytes()) ==
        "a: x");
  // Archives of Unix version 7 mark folders by a slash.
  CHECK(sample_text(TarHeader("d.x/", 0, '\0').bytes() + tar_member("a.x", "")) == "a: x");
  CHECK(sample_text(TarHeader(std::string(100, 'n') + "\0", 0).bytes() + tar_member("a.x", "")) ==
        "a: x");
}

TEST_CASE("A key that returns and a field that occurs twice are fatal", "[data][tar]") {
  const std::string a = tar_member("a.x", ""), b = tar_member("b.x", "");
  CHECK(tar_refusal(a + b + tar_member("a.y", "")) ==
        "s.tar: offset 1024: the key `a` returns after other samples");
  CHECK(tar_refusal(b + a + tar_member("a.X", "")) ==
        "s.tar: offset 1024: sample `a` has the field `x` twice");
}

namespace {

struct ShardFolder : FreshDirectory {
  RunError refusal(const std::string& name, const std::string& bytes) const {
    write_text_atomically(*this / name, bytes);
    return refusal(*this / name);
  }
  RunError refusal(const fs::path& path) const {
    try {
      const TarShard shard(path);
    } catch (const RunError& error) {
      return error;
    }
    return RunError("accepted");
  }
};

}  // namespace

TEST_CASE("A packed shard is refused with the command that unpacks it", "[data][tar]") {
  const ShardFolder folder;
  const std::string at = folder.path().string() + "/";
  const RunError gzip = folder.refusal("a b.tgz", "\x1f\x8b\x08");
  CHECK(gzip.what() == at + "a b.tgz is packed with gzip; expected a plain tar archive");
  CHECK(gzip.hint() == "unpack it by `gzip -dc '" + at + "a b.tgz' > '" + at +
                           "a b.tar'`, because shards are read in place");
  CHECK(folder.refusal("a.tar.zst", "\x28\xB5\x2F\xFD")
            .hint()
            .starts_with("unpack it by `zstd -dc " + at + "a.tar.zst > " + at + "a.tar`"));
  CHECK(folder.refusal("a.tar", "BZh91AY")
            .hint()
            .starts_with("unpack it by `bzip2 -dc " + at + "a.tar > " + at + "a.tar.unpacked`"));
  CHECK(std::string(folder
                        .refusal("a.xz", std::string("\xFD"
                                                     "7zXZ\0",
                                                     6))
                        .what())
            .ends_with("is packed with xz; expected a plain tar archive"));
  CHECK(std::string(folder.refusal("a.lz4", "\x04\x22\x4D\x18").what())
            .ends_with("is packed with lz4; expected a plain tar archive"));
  CHECK(std::string(folder.refusal("b.tar", tar_member("BZhang/1.x", "")).what()) == "accepted");
}

TEST_CASE("Other files are refused", "[data][tar]") {
  const ShardFolder folder;
  const std::string at = folder.path().string() + "/";
  CHECK(folder.refusal("a.tar", "").what() == at + "a.tar is empty; expected a tar archive");
  CHECK(folder.refusal("a.tar", "<!DOCTYPE html>" + std::string(600, ' '))
            .hint()
            .starts_with("the file is a web page"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(std::string(folder.refusal(folder / "pipe").what()).ends_with("expected a regular file"));
  CHECK(std::string(folder.refusal(folder / "none").what()).ends_with("No such file or directory"));
}

}  // namespace flow::data
