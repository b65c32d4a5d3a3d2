// .safetensors files: read, written, and refused where they are damaged.
#include "runtime/io/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>

#include "runtime/base/error.h"
#include "runtime/io/elements.h"
#include "tests/support/fresh_directory.h"

namespace flow::io {
namespace {

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// A file of this header and data.
std::string safetensors_of(const std::string& header, const std::string& data = "") {
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return length + header + data;
}

/// "\"a\": {...}"
std::string array_text(const std::string& name, const std::string& dtype, const std::string& shape,
                       int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string header_refusal(const std::string& file) {
  try {
    const Safetensors read(bytes_in(file), "x");
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

std::string index_refusal(const std::string& text) {
  try {
    parse_safetensors_index(text, "i");
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kInvalid = "x is not a valid .safetensors file: ";

}  // namespace

TEST_CASE("arrays are listed with their dtypes, shapes and bytes", "[io]") {
  const std::string file = safetensors_of(
      "{\"__metadata__\":{\"format\":\"pt\"}," + array_text("a", "BF16", "[2,1]", 2, 6) + "," +
          array_text("b", "F8_E4M3", "[2]", 0, 2) + "," + array_text("c", "F4", "[3,2]", 6, 9) +
          "," + array_text("d", "I64", "[0,4]", 9, 9) + "}  ",
      "123456789");
  const Safetensors read(bytes_in(file), "x");
  REQUIRE(read.arrays().size() == 4);
  const auto& a = read.arrays().at("a");
  CHECK(a.dtype == DType::kBFloat16);
  CHECK(a.shape == Shape{2, 1});
  CHECK(std::memcmp(read.bytes_of(a).data(), "3456", 4) == 0);
  CHECK_FALSE(read.arrays().at("b").dtype);
  CHECK(read.arrays().at("b").code == "F8_E4M3");
  CHECK(read.arrays().at("c").bytes == 3);
  CHECK(read.arrays().at("d").shape.elements() == 0);
}

TEST_CASE("damaged headers of .safetensors files are refused", "[io]") {
  const auto invalid = [](const std::string& what) { return kInvalid + what; };
  CHECK(header_refusal("") == invalid("it has 0 bytes"));
  CHECK(header_refusal(std::string(8, '\xff')) ==
        invalid("its header has 18446744073709551615 bytes; expected at most 100000000"));
  CHECK(header_refusal(safetensors_of("{}").substr(0, 9)) ==
        invalid("its header has 2 bytes, the file only 9"));
  CHECK(header_refusal(safetensors_of(" {}")) == invalid("its header does not begin with `{`"));
  CHECK(header_refusal(safetensors_of("{\"a\"")) ==
        invalid("header:1:5: invalid JSON: unexpected end of file"));
  CHECK(header_refusal(safetensors_of("{\"__metadata__\":{\"a\":1}}")) ==
        invalid("its metadata `a` is not text"));
  CHECK(header_refusal(safetensors_of("{\"__metadata__\":[]}")) ==
        invalid("its metadata is not an object"));
  CHECK(header_refusal(safetensors_of("{\"a\":{}}")) ==
        invalid("array `a`: expected dtype, shape and data_offsets"));
  CHECK(header_refusal(safetensors_of("{\"a\":1}")) ==
        invalid("array `a`: expected dtype, shape and data_offsets"));
  const std::string a = array_text("a", "U8", "[1]", 0, 1);
  CHECK(header_refusal(safetensors_of("{" + a + "," + a + "}", "1")) ==
        invalid("header: duplicate key `a`"));
  CHECK(header_refusal(safetensors_of("{" + array_text("a", "F33", "[1]", 0, 4) + "}", "1234")) ==
        invalid("array `a`: unknown dtype `\"F33\"`"));
  for (const char* shape : {"[-1]", "[1.0]", "1", "[\"1\"]", "[9223372036854775808]", "[null]"})
    CHECK(header_refusal(safetensors_of("{" + array_text("a", "U8", shape, 0, 1) + "}", "1")) ==
          invalid("array `a`: shape is not a list of whole numbers"));
  CHECK(header_refusal(safetensors_of(
            "{" + array_text("a", "F64", "[4611686018427387904,4]", 0, 1) + "}", "1")) ==
        invalid("array `a`: its shape is too large: [4611686018427387904, 4]"));
  // 2^64 bits and more.
  CHECK(header_refusal(
            safetensors_of("{" + array_text("a", "F64", "[288230376151711744]", 0, 0) + "}")) ==
        invalid("array `a`: its shape is too large: [288230376151711744]"));
  CHECK(header_refusal(safetensors_of("{" + array_text("a", "U8", "[2]", 0, 1) + "}", "1")) ==
        invalid("array `a`: 1 bytes for [2] of U8"));
  CHECK(header_refusal(safetensors_of("{" + array_text("a", "F4", "[3]", 0, 1) + "}", "1")) ==
        invalid("array `a`: 1 bytes for [3] of F4"));
  CHECK(header_refusal(safetensors_of("{" + array_text("a", "U8", "[2]", 0, 2) + "}", "1")) ==
        invalid("array `a`: bytes 0 to 2 of 1 bytes of data"));
  CHECK(header_refusal(safetensors_of("{" + array_text("a", "U8", "[1]", 1, 0) + "}", "1")) ==
        invalid("array `a`: bytes 1 to 0 of 1 bytes of data"));
  std::string axes = "[1";
  for (int i = 0; i < 32; ++i) axes += ",1";
  CHECK(header_refusal(safetensors_of("{" + array_text("a", "U8", axes + "]", 0, 1) + "}", "1")) ==
        invalid("array `a`: more than 32 axes"));
  CHECK(header_refusal(safetensors_of(std::string(200, '['))) ==
        invalid("its header does not begin with `{`"));
  CHECK(header_refusal(safetensors_of("{\"a\":" + std::string(200, '['))) ==
        invalid("header: nested more than 100 levels deep"));
  CHECK(header_refusal(safetensors_of("{" + array_text("a\\u0000b", "U8", "[2]", 0, 1) + "}",
                                      "1")) == invalid("array `a\\x00b`: 1 bytes for [2] of U8"));
}

TEST_CASE("arrays that overlap, and bytes that belong to none, are refused", "[io]") {
  const auto of = [](int begin, int end, const std::string& data) {
    return header_refusal(safetensors_of("{" + array_text("a", "U8", "[2]", 0, 2) + "," +
                                             array_text("b", "U8", "[2]", begin, end) + "}",
                                         data));
  };
  CHECK(of(2, 4, "1234").empty());
  CHECK(of(1, 3, "123") == std::string(kInvalid) + "arrays `a` and `b` overlap");
  CHECK(of(0, 2, "12") == std::string(kInvalid) + "arrays `a` and `b` overlap");
  CHECK(of(3, 5, "12345") == std::string(kInvalid) + "1 bytes before array `b` belong to no array");
  CHECK(of(2, 4, "12345") == std::string(kInvalid) + "1 bytes after the last array");
}

TEST_CASE("a damaged .safetensors file never reads beyond itself", "[io]") {
  std::vector<SafetensorsItem> items = {
      {"a.w", DType::kFloat32, {3, 2}}, {"b", DType::kBFloat16, {5}}, {"c", DType::kInt64, {1}}};
  std::string good = safetensors_header(items);
  good += std::string(24 + 10 + 8, 'x');
  REQUIRE(header_refusal(good).empty());
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string file = good;
    for (size_t damage = random() % 4; damage-- > 0;) {
      const size_t at = random() % (random() % 2 ? 16 : file.size());
      file[at] = static_cast<char>(random());
    }
    if (random() % 2) file.resize(random() % file.size());
    // Copied: a sanitizer sees a read behind it.
    const std::vector<char> exact(file.begin(), file.end());
    try {
      const Safetensors read(std::as_bytes(std::span(exact)), "x");
      for (const auto& [name, array] : read.arrays())
        CHECK(array.offset + array.bytes <= exact.size());
    } catch (const RunError&) {
    }
  }
}

TEST_CASE("what is written is read, and each array is aligned", "[io]") {
  std::vector<SafetensorsItem> items = {{"bool", DType::kBool, {3}},
                                        {"f32", DType::kFloat32, {2, 2}},
                                        {"f64", DType::kFloat64, {}},
                                        {"bf16", DType::kBFloat16, {1}}};
  std::string file = safetensors_header(items);
  CHECK(file.size() % 64 == 0);
  CHECK(items.front().name == "f64");
  file += std::string(3 + 16 + 8 + 2, '\1');
  const Safetensors read(bytes_in(file), "x");
  for (const auto& [name, array] : read.arrays())
    CHECK(array.offset % size_of(array.dtype.value()) == 0);
  CHECK(read.arrays().at("f32").shape == Shape{2, 2});
  std::vector<SafetensorsItem> none;
  CHECK(header_refusal(safetensors_header(none)).empty());
}

TEST_CASE("an index names files of its own folder only", "[io]") {
  CHECK(parse_safetensors_index(R"({"weight_map":{"a":"m-1.safetensors"}})", "i") ==
        SafetensorsIndex{{"a", "m-1.safetensors"}});
  const std::string invalid = "i is not a valid index of .safetensors files: ";
  CHECK(index_refusal("[]") == invalid + "`weight_map` is missing");
  CHECK(index_refusal(R"({"weight_map":[]})") == invalid + "`weight_map` is missing");
  CHECK(index_refusal(R"({"weight_map":{}})") == invalid + "`weight_map` is empty");
  CHECK(index_refusal(R"({"weight_map":{"a":1}})") == invalid + "the file of `a` is not text");
  for (const char* file : {"../m.safetensors", "/m.safetensors", "a/m.safetensors", "m.bin", "",
                           "a\\\\m.safetensors", "m\\u0000.safetensors"})
    CHECK(index_refusal(std::string(R"({"weight_map":{"a":")") + file + "\"}}")
              .find("expected the name of a .safetensors file in the folder of the index") !=
          std::string::npos);
}

TEST_CASE("a folder has one set, or one file", "[io]") {
  const FreshDirectory home;
  const auto touch = [&](const char* name) { write_text_atomically(home / name, ""); };
  CHECK_FALSE(find_safetensors(home.path()));
  touch("a.safetensors");
  CHECK(find_safetensors(home.path()) == home / "a.safetensors");
  CHECK(find_safetensors(home / "a.safetensors") == home / "a.safetensors");
  touch("b.safetensors");
  CHECK_THROWS_WITH(
      find_safetensors(home.path()),
      Catch::Contains("has 2 .safetensors files: `a.safetensors` or `b.safetensors`"));
  touch("m.safetensors.index.json");
  CHECK(find_safetensors(home.path()) == home / "m.safetensors.index.json");
  touch("model.safetensors");
  CHECK(find_safetensors(home.path()) == home / "model.safetensors");
  touch("x.npz");
  CHECK_FALSE(find_safetensors(home / "x.npz"));
}

TEST_CASE("elements move with their axes", "[io]") {
  const Shape shape{2, 3, 1, 5};
  std::vector<uint16_t> from(30), to(30);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i);
  std::vector<int64_t> perm{0, 1, 2, 3};
  do {
    const Shape made = permuted(shape, perm);
    copy_permuted(reinterpret_cast<const std::byte*>(from.data()), shape, perm, 2,
                  reinterpret_cast<std::byte*>(to.data()));
    size_t at = 0;
    std::vector<int64_t> index(4);
    for (index[0] = 0; index[0] < made[0]; ++index[0])
      for (index[1] = 0; index[1] < made[1]; ++index[1])
        for (index[2] = 0; index[2] < made[2]; ++index[2])
          for (index[3] = 0; index[3] < made[3]; ++index[3]) {
            std::vector<int64_t> source(4);
            for (size_t k = 0; k < 4; ++k) source[static_cast<size_t>(perm[k])] = index[k];
            CHECK(to[at++] == ((source[0] * 3 + source[1]) * 1 + source[2]) * 5 + source[3]);
          }
  } while (std::next_permutation(perm.begin(), perm.end()));
  copy_permuted(reinterpret_cast<const std::byte*>(from.data()), Shape{}, {}, 2,
                reinterpret_cast<std::byte*>(to.data()));
  CHECK(to[0] == from[0]);
}

}  // namespace flow::io
