// Rows of raw elements and of .safetensors files, converted by the reader of columns.
#include "runtime/data/files/raw_rows.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "runtime/io/convert.h"
#include "runtime/plan/json/json.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/source_files.h"

namespace flow::data {
namespace {

const Json& golden_elements() {
  static const Json record =
      plan::parse_json(read_text(test::source_path("tests/golden/data/shards.json")), "shards");
  return record["elements"];
}

std::string bytes_from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

const io::CheckShape kAnyShape = [](const Shape&) {};

template <typename T>
std::vector<T> converted(const io::Rows& rows, DType dtype) {
  const auto count = static_cast<size_t>(rows.shape.elements());
  std::vector<T> out(count);
  io::RowConverter converter(rows.dtype, rows.big_endian, {}, count, rows.narrow);
  const auto misfit =
      converter.convert(rows.data.data(), dtype, reinterpret_cast<std::byte*>(out.data()));
  CHECK_FALSE(misfit.has_value());
  return out;
}

struct RawFolder : FreshDirectory {
  fs::path write(const std::string& name, const std::string& bytes) const {
    write_text_atomically(*this / name, bytes);
    return *this / name;
  }
  template <typename Read>
  std::string refusal(Read read) const {
    try {
      read();
    } catch (const RunError& error) {
      const std::string text = error.what(), folder = path().string() + "/";
      return text.starts_with(folder) ? text.substr(folder.size()) : text;
    }
    return "accepted";
  }
  std::string bin_refusal(const fs::path& path, const BinFormat& format, const Shape& row) const {
    return refusal([&] { read_bin_rows(path, format, row, kAnyShape); });
  }
  std::string safetensors_refusal(const std::string& bytes, const std::string& array) const {
    const fs::path path = write("x.safetensors", bytes);
    return refusal([&] { read_safetensors_rows(path, array, kAnyShape); });
  }
};

/// A .safetensors file with this header.
std::string safetensors_file(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

}  // namespace

TEST_CASE("bin reads every element type in both byte orders, as NumPy writes them",
          "[data][raw_rows]") {
  const RawFolder folder;
  for (const auto& [name, record] : golden_elements().items()) {
    const auto type = parse_element_type(name);
    REQUIRE(type);
    for (const bool big : {false, true}) {
      INFO(name << (big ? " big" : " little"));
      const std::string bytes = "???" + bytes_from_hex(record[big ? "big" : "little"]);
      Shape seen;
      const io::Rows rows = read_bin_rows(folder.write("x.bin", bytes), {*type, big, 3}, {2},
                                          [&](const Shape& shape) { seen = shape; });
      CHECK(rows.shape == Shape({3, 2}));
      CHECK(seen == rows.shape);
      if (is_float(type->dtype))
        CHECK(converted<double>(rows, DType::kFloat64) ==
              record["values"].get<std::vector<double>>());
      else
        CHECK(converted<int64_t>(rows, DType::kInt64) ==
              record["values"].get<std::vector<int64_t>>());
    }
  }
}

TEST_CASE("A uint64 over 2^63-1 does not fit, whatever it is read as", "[data][raw_rows]") {
  const RawFolder folder;
  const fs::path path = folder.write("x.bin", std::string(8, '\0') + std::string(7, '\0') + "\x80");
  const io::Rows rows = read_bin_rows(path, {*parse_element_type("uint64")}, {}, kAnyShape);
  for (const double scale : {1.0, 0.5})
    for (const DType dtype : {DType::kInt64, DType::kFloat32, DType::kFloat64}) {
      io::RowConverter converter(rows.dtype, false, {scale, {}, {}}, 2, rows.narrow);
      std::array<std::byte, 16> out;
      const auto misfit = converter.convert(rows.data.data(), dtype, out.data());
      REQUIRE(misfit);
      CHECK(misfit->element == 1);
      CHECK(misfit->value == 0x1p63);
    }
}

TEST_CASE("A uint32 that does not fit in the input's dtype is found", "[data][raw_rows]") {
  const RawFolder folder;
  const fs::path path = folder.write("x.bin", "\xff\xff\xff\xff");
  const io::Rows rows = read_bin_rows(path, {*parse_element_type("uint32")}, {}, kAnyShape);
  io::RowConverter converter(rows.dtype, false, {}, 1, rows.narrow);
  std::array<std::byte, 8> out;
  const auto misfit = converter.convert(rows.data.data(), DType::kInt32, out.data());
  REQUIRE(misfit);
  CHECK(misfit->value == 4294967295.0);
  CHECK_FALSE(converter.convert(rows.data.data(), DType::kInt64, out.data()));
}

TEST_CASE("bin refuses what is not whole rows", "[data][raw_rows]") {
  const RawFolder folder;
  const fs::path path = folder.write("x.bin", std::string(11, 'x'));
  const BinFormat int16{*parse_element_type("int16")};
  BinFormat late = int16;
  late.offset = 12;
  CHECK(folder.bin_refusal(path, int16, {2, 2}) ==
        "x.bin has 11 bytes of data after offset 0; expected rows of 8 bytes, 3 remain");
  CHECK(folder.bin_refusal(path, late, {}) ==
        "x.bin has 11 bytes; expected at least the offset 12");
  late.offset = 11;
  CHECK(read_bin_rows(path, late, {}, kAnyShape).shape == Shape({0}));
  CHECK(folder.bin_refusal(path, int16, {3, 0}) == "x.bin: rows of shape [3, 0] have no elements");
  const int64_t large = int64_t{1} << 32;
  CHECK(folder.bin_refusal(path, int16, {large, large}) ==
        "x.bin: rows of shape [4294967296, 4294967296] are too large");
  CHECK_FALSE(parse_element_type("uint128"));
  CHECK_FALSE(parse_element_type("U16"));
}

TEST_CASE("bin refuses a missing file, a folder and a pipe", "[data][raw_rows]") {
  const RawFolder folder;
  const BinFormat bytes{{DType::kUInt8}};
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(folder.bin_refusal(folder / "pipe", bytes, {}) ==
        "pipe is a pipe or a device; expected a regular file");
  CHECK(folder.bin_refusal(folder / "none", bytes, {}).ends_with("No such file or directory"));
  CHECK(folder.bin_refusal(folder.path(), bytes, {}).ends_with("Is a directory"));
}

TEST_CASE("safetensors reads an array whose first axis counts rows", "[data][raw_rows]") {
  const RawFolder folder;
  const std::string header = R"({"a":{"dtype":"U16","shape":[2,2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]}})";
  const fs::path path = folder.write(
      "x.safetensors",
      safetensors_file(header, std::string("\x01\x00\x00\x80\xff\xff\x02\x01\x20\xC0", 10)));
  const io::Rows a = read_safetensors_rows(path, "a", kAnyShape);
  CHECK(a.shape == Shape({2, 2}));
  CHECK(converted<int64_t>(a, DType::kInt64) == std::vector<int64_t>{1, 32768, 65535, 258});
  const io::Rows b = read_safetensors_rows(path, "b", kAnyShape);
  CHECK(converted<double>(b, DType::kFloat64) == std::vector<double>{-2.5});
}

TEST_CASE("safetensors refuses missing arrays, scalars and other types", "[data][raw_rows]") {
  const RawFolder folder;
  const std::string file =
      safetensors_file(R"({"load":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                       R"("c":{"dtype":"C64","shape":[1],"data_offsets":[4,12]}})",
                       std::string(12, '\0'));
  CHECK(folder.safetensors_refusal(file, "lead") == "x.safetensors has no array `lead`");
  CHECK(folder.safetensors_refusal(file, "load") ==
        "x.safetensors: `load` is a scalar; expected an array with rows");
  CHECK(folder.safetensors_refusal(file, "c") ==
        "x.safetensors: `c` has the unsupported dtype C64");
  CHECK(folder.safetensors_refusal(file.substr(0, file.size() - 1), "c")
            .find("is not a valid .safetensors file") != std::string::npos);
  CHECK(folder.safetensors_refusal("", "c") ==
        "x.safetensors is not a valid .safetensors file: it has 0 bytes");
  const fs::path path = folder.write("x.safetensors", file);
  try {
    read_safetensors_rows(path, "laod", kAnyShape);
    FAIL("accepted");
  } catch (const RunError& error) {
    CHECK(error.hint() == "use `load`");
  }
}

}  // namespace flow::data
