// Columns of idx and .npy files: what is read, how it is converted, what is refused.
#include "runtime/data/dataset/dataset.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/base/element_types.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

std::string idx(const Shape& shape, const std::string& data, char type = 8) {
  std::string file = {'\0', '\0', type, static_cast<char>(shape.rank())};
  for (const int64_t extent : shape)
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(extent >> shift);
  return file + data;
}

std::string bytes_from(int first, int n) {
  std::string data;
  for (int i = 0; i < n; ++i) data += static_cast<char>(first + i);
  return data;
}

uint32_t crc32_of(const std::string& text) {
  uint32_t sum = ~uint32_t{0};
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
  }
  return ~sum;
}

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// A gzip member of one block that is stored as it is.
std::string gzip(const std::string& text) {
  return "\x1f\x8b\x08" + std::string(7, '\0') + '\1' + little_endian(text.size(), 2) +
         little_endian(~text.size(), 2) + text + little_endian(crc32_of(text), 4) +
         little_endian(text.size(), 4);
}

plan::Column column(const std::string& path, Shape row_shape) {
  plan::Column column;
  column.name = "x";
  column.source = path.ends_with(".npy") ? plan::SourceKind::kNpy : plan::SourceKind::kIdx;
  column.files = {path};
  column.row_shape = std::move(row_shape);
  column.where = "job.yaml:4:12";
  return column;
}

template <typename T>
std::vector<T> read(Column& reader, const std::vector<int64_t>& rows) {
  std::vector<T> out(rows.size() * static_cast<size_t>(reader.row_shape().elements()));
  reader.read(rows, DTypeOf<T>::value, std::as_writable_bytes(std::span(out)));
  return out;
}

struct Folder : FreshDirectory {
  void write(const std::string& name, const std::string& content) const {
    write_text_atomically(*this / name, content);
  }
  std::unique_ptr<Column> open(const plan::Column& of) const { return Column::open(of, path()); }
  /// The message with which a column of these bytes is refused.
  std::string refusal(const std::string& content, Shape row_shape = {2, 2}) const {
    write("x.idx", content);
    return refusal(column("x.idx", std::move(row_shape)));
  }
  std::string refusal(const plan::Column& of) const {
    try {
      open(of);
    } catch (const RunError& error) {
      return error.what();
    }
    return "accepted";
  }
};

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

const std::string kImages = idx({3, 2, 2}, bytes_from(0, 12));

TEST_CASE("rows of an idx file come in any order", "[data]") {
  const Folder folder;
  folder.write("x.idx", kImages);
  const auto reader = folder.open(column("x.idx", {1, 2, 2}));
  CHECK(reader->rows() == 3);
  CHECK(read<uint8_t>(*reader, {2, 0}) == std::vector<uint8_t>{8, 9, 10, 11, 0, 1, 2, 3});
  CHECK(read<float>(*reader, {1}) == std::vector<float>{4, 5, 6, 7});
  CHECK(read<int32_t>(*reader, {1}) == std::vector<int32_t>{4, 5, 6, 7});
}

TEST_CASE("a packed idx file reads as the plain one, whatever its name and members", "[data]") {
  const Folder folder;
  folder.write("x.idx", gzip(kImages));
  CHECK(read<int32_t>(*folder.open(column("x.idx", {4})), {2}) ==
        std::vector<int32_t>{8, 9, 10, 11});
  folder.write("two", gzip(kImages.substr(0, 7)) + gzip(kImages.substr(7)) + std::string(9, '\0'));
  CHECK(read<int32_t>(*folder.open(column("two", {4})), {0}) == std::vector<int32_t>{0, 1, 2, 3});
}

TEST_CASE("idx elements are big-endian", "[data]") {
  const Folder folder;
  folder.write("i", idx({1, 2}, std::string("\0\0\1\2\xff\xff\xff\xfe", 8), 0x0C));
  CHECK(read<int64_t>(*folder.open(column("i", {2})), {0}) == std::vector<int64_t>{258, -2});
  folder.write("f", idx({1, 1}, std::string("\x3f\xc0\0\0", 4), 0x0D));
  CHECK(read<double>(*folder.open(column("f", {})), {0}) == std::vector<double>{1.5});
}

TEST_CASE("scale 1/255 is exactly x/255 in float32", "[data]") {
  const Folder folder;
  folder.write("x", idx({1, 256}, bytes_from(0, 256)));
  plan::Column of = column("x", {256});
  of.scale = 1.0 / 255;
  const auto values = read<float>(*folder.open(of), {0});
  for (size_t i = 0; i < 256; ++i) REQUIRE(values[i] == static_cast<float>(i) / 255.0f);
}

TEST_CASE("mean and std are one number or one a channel", "[data]") {
  const Folder folder;
  folder.write("x", idx({1, 2, 2}, bytes_from(10, 4)));
  plan::Column of = column("x", {2, 2});
  of.scale = 2;
  of.mean.values = {1, 2};
  of.std.values = {0.5};
  CHECK(read<double>(*folder.open(of), {0}) == std::vector<double>{38, 42, 44, 48});
  of.std.values = {1, 2, 3};
  CHECK(has(folder.refusal(of), "3 values of mean or std for 2 channels"));
}

TEST_CASE("conversion is the same with and without a table", "[data]") {
  const Folder folder;
  folder.write("x", idx({1, 256}, bytes_from(0, 256)));
  Array wide(DType::kFloat64, {1, 256});
  for (size_t i = 0; i < 256; ++i) wide.as<double>()[i] = static_cast<double>(i);
  io::write_npy(folder / "x.npy", wide.view());
  for (const char* name : {"x", "x.npy"}) {
    plan::Column of = column(name, {256});
    of.scale = 0.1;
    of.mean.values = {0.3};
    of.std.values = {0.7};
    const auto reader = folder.open(of);
    const auto values = read<float>(*reader, {0});
    for (size_t i = 0; i < 256; ++i)
      REQUIRE(values[i] == static_cast<float>((static_cast<double>(i) * 0.1 - 0.3) / 0.7));
    std::vector<uint16_t> halves(256);
    const std::vector<int64_t> first = {0};
    reader->read(first, DType::kFloat16, std::as_writable_bytes(std::span(halves)));
    REQUIRE(halves[100] == double_to_float16((100 * 0.1 - 0.3) / 0.7));
  }
}

TEST_CASE("who looks bytes up in their table gets what reading gives", "[data]") {
  const Folder folder;
  folder.write("x", idx({3, 2, 128}, bytes_from(0, 256) + bytes_from(7, 512)));
  plan::Column of = column("x", {2, 128});
  of.rows = GENERATE(std::vector<std::pair<int64_t, int64_t>>{{1, 3}},
                     std::vector<std::pair<int64_t, int64_t>>{{2, 3}, {0, 1}});
  of.scale = 0.1;
  of.mean.values = GENERATE(std::vector<double>{}, std::vector<double>{0.3, 0.9});
  const auto reader = folder.open(of);
  const auto rows = reader->byte_rows(DType::kFloat32);
  REQUIRE(rows);
  REQUIRE(rows->channels == std::max<size_t>(1, of.mean.values.size()));
  REQUIRE(rows->table.size() == rows->channels * 256 * sizeof(float));
  std::vector<std::byte> bytes;
  for (const auto part : rows->parts) bytes.insert(bytes.end(), part.begin(), part.end());
  REQUIRE(bytes.size() == 512);
  const auto* table = reinterpret_cast<const float*>(rows->table.data());
  std::vector<float> looked_up;
  for (size_t i = 0; i < 512; ++i) {
    const size_t channel = i % 256 / (256 / rows->channels);
    looked_up.push_back(table[channel * 256 + std::to_integer<size_t>(bytes[i])]);
  }
  CHECK(looked_up == read<float>(*reader, {0, 1}));
  CHECK_FALSE(reader->byte_rows(DType::kInt32));  // a tenth is no integer
  CHECK_FALSE(folder.open(column("x", {2, 128}))->byte_rows(DType::kUInt8)->table.empty());
}

TEST_CASE("integers take whole numbers in their range only", "[data]") {
  const Folder folder;
  Array array(DType::kFloat64, {4, 1});
  const std::vector<double> values = {7, 300, 2.5, std::nan("")};
  std::ranges::copy(values, array.as<double>().begin());
  io::write_npy(folder / "x.npy", array.view());
  const auto reader = folder.open(column("x.npy", {1}));
  CHECK(read<int32_t>(*reader, {0, 1}) == std::vector<int32_t>{7, 300});
  CHECK_THROWS_AS(read<uint8_t>(*reader, {1}), RunError);
  CHECK_THROWS_AS(read<int64_t>(*reader, {3}), RunError);
  try {
    read<int32_t>(*reader, {0, 2});
    FAIL("2.5 became an integer");
  } catch (const RunError& error) {
    CHECK(has(error.what(), "job.yaml:4:12: row 2 of "));
    CHECK(has(error.what(), "contains 2.5 (element 0), which is not a valid int32"));
  }
}

TEST_CASE("a finite number stays finite", "[data]") {
  const Folder folder;
  Array array(DType::kFloat64, {4, 1});
  const std::vector<double> values = {3.4e38, INFINITY, -1e300, 70000};
  std::ranges::copy(values, array.as<double>().begin());
  io::write_npy(folder / "x.npy", array.view());
  const auto reader = folder.open(column("x.npy", {1}));
  CHECK(read<float>(*reader, {0, 1, 3}) == std::vector<float>{3.4e38F, INFINITY, 70000});
  CHECK_THROWS_AS(read<Float16>(*reader, {3}), RunError);
  CHECK_THROWS_WITH(read<float>(*reader, {2}),
                    Catch::Contains("contains -1e+300 (element 0), which is not a valid float32"));
}

TEST_CASE("a scale that takes bytes beyond float32 is no table", "[data]") {
  const Folder folder;
  Array array(DType::kUInt8, {2, 1});
  array.as<uint8_t>()[0] = 1;
  array.as<uint8_t>()[1] = 255;
  io::write_npy(folder / "x.npy", array.view());
  plan::Column huge = column("x.npy", {1});
  huge.scale = 3e38;
  const auto reader = folder.open(huge);
  CHECK_FALSE(reader->byte_rows(DType::kFloat32));
  CHECK(read<float>(*reader, {0}) == std::vector<float>{3e38F});
  CHECK_THROWS_AS(read<float>(*reader, {1}), RunError);
}

TEST_CASE("large integers pass unrounded", "[data]") {
  const Folder folder;
  Array array(DType::kInt64, {1, 2});
  array.as<int64_t>()[0] = (int64_t{1} << 53) + 1;
  array.as<int64_t>()[1] = std::numeric_limits<int64_t>::max();
  io::write_npy(folder / "x.npy", array.view());
  const auto reader = folder.open(column("x.npy", {2}));
  CHECK(read<int64_t>(*reader, {0})[0] == (int64_t{1} << 53) + 1);
  CHECK_THROWS_AS(read<int32_t>(*reader, {0}), RunError);
}

TEST_CASE("a part of the rows may be taken", "[data]") {
  const Folder folder;
  folder.write("x", idx({5}, bytes_from(0, 5)));
  plan::Column of = column("x", {});
  of.rows = {{1, 4}};
  const auto reader = folder.open(of);
  CHECK(reader->rows() == 3);
  CHECK(read<int32_t>(*reader, {0, 2}) == std::vector<int32_t>{1, 3});
  of.rows = {{1, 6}};
  CHECK(has(folder.refusal(of), "has 5 rows; the column selects rows 1..6"));
}

TEST_CASE("several parts of the rows follow one another", "[data]") {
  const Folder folder;
  folder.write("x", idx({6}, bytes_from(0, 6)));
  plan::Column of = column("x", {});
  of.rows = {{4, 6}, {0, 1}, {3, 5}};
  const auto reader = folder.open(of);
  CHECK(reader->rows() == 5);
  CHECK(read<int32_t>(*reader, {0, 1, 2, 3, 4}) == std::vector<int32_t>{4, 5, 0, 3, 4});
  of.rows = {{0, 2}, {5, 7}};
  CHECK(has(folder.refusal(of), "has 6 rows; the column selects rows 5..7"));
}

TEST_CASE("a row's axes may be merged or split, not exchanged", "[data]") {
  const Folder folder;
  CHECK(folder.refusal(kImages, {4}) == "accepted");
  CHECK(folder.refusal(kImages, {2, 1, 2}) == "accepted");
  CHECK(has(folder.refusal(kImages, {5}), "has rows of [2, 2]; expected [5]"));
  const std::string channels_last = idx({1, 2, 2, 3}, bytes_from(0, 12));
  CHECK(folder.refusal(channels_last, {12}) == "accepted");
  CHECK(has(folder.refusal(channels_last, {3, 2, 2}), "has rows of [2, 2, 3]"));
}

TEST_CASE("damaged idx files are refused before anything is read", "[data]") {
  const Folder folder;
  CHECK(has(folder.refusal(""), "job.yaml:4:12: "));
  CHECK(has(folder.refusal(""), "x.idx is empty"));
  CHECK(has(folder.refusal("\x89PNG"), "is not an idx file: begins with 89 50 4e 47"));
  CHECK(has(folder.refusal(std::string("\0\0", 2)), "truncated inside its header"));
  CHECK(has(folder.refusal(kImages.substr(0, 9)), "truncated inside its header"));
  CHECK(has(folder.refusal(kImages.substr(0, 20)),
            "is truncated: 4 bytes of data; the header says "
            "[3, 2, 2] of uint8, 12 bytes"));
  CHECK(has(folder.refusal(kImages + "x"), "is too long: 13 bytes"));
  CHECK(has(folder.refusal(idx({3}, "abc", 0x0A)), "element type 0x0a"));
  CHECK(has(folder.refusal(idx({}, "")), "without rows"));
  CHECK(has(folder.refusal(idx({4294967295, 4294967295, 4294967295}, "")),
            "shape that is too large"));
  CHECK(has(folder.refusal(idx({4294967295, 28, 28}, "abc")), "is truncated: 3 bytes"));
}

TEST_CASE("a gzip stream that unpacks to more than the memory is refused before it is unpacked",
          "[data]") {
  const Folder folder;
  folder.write("x.idx", gzip(idx({4294967295, 65535, 2}, "data")));
  fs::resize_file(folder / "x.idx", uintmax_t{1} << 40);  // sparse: as much may be packed in it
  CHECK_THAT(folder.refusal(column("x.idx", {65535, 2})),
             Catch::Contains("unpacks to 512 TiB; only "));
}

TEST_CASE("an idx file whose rows do not fit is refused before it is unpacked", "[data]") {
  const Folder folder;
  const std::string packed = gzip(idx({2, 3, 3}, ""));  // and its data are missing
  CHECK(has(folder.refusal(packed), "has rows of [3, 3]; expected [2, 2]"));
}

TEST_CASE("damaged gzip streams are refused", "[data]") {
  const Folder folder;
  const std::string packed = gzip(kImages);
  CHECK(has(folder.refusal(packed.substr(0, packed.size() - 9)), "is truncated"));
  CHECK(has(folder.refusal(packed.substr(0, packed.size() - 1)), "is truncated"));
  CHECK(has(folder.refusal(packed.substr(0, 5)), "is truncated inside its gzip stream"));
  std::string wrong_sum = packed;
  wrong_sum[wrong_sum.size() - 6] ^= 1;
  CHECK(has(folder.refusal(wrong_sum), "is damaged: incorrect data check"));
  CHECK(has(folder.refusal(packed + "trailing"), "8 bytes after the end of its gzip stream"));
  CHECK(has(folder.refusal(gzip(kImages + "x")), "is too long: more than 12 bytes"));
  CHECK(has(folder.refusal(gzip(kImages.substr(0, 20))), "is truncated: 4 bytes of data"));
  CHECK(has(folder.refusal(gzip(idx({4294967295, 4096}, ""))), "is truncated: "));
}

TEST_CASE("columns of a dataset have one length", "[data]") {
  const Folder folder;
  folder.write("a", idx({3, 2}, bytes_from(0, 6)));
  folder.write("b", idx({2}, bytes_from(0, 2)));
  plan::Dataset dataset;
  dataset.name = "d";
  dataset.columns = {column("a", {2}), column("b", {})};
  dataset.where = "job.yaml:3:3";
  dataset.columns[1].name = "y";
  DatasetRequest request;
  request.dataset = &dataset;
  request.columns = {"x", "y"};
  request.root = folder.path();
  try {
    Dataset{request};
    FAIL("columns of different length were taken");
  } catch (const RunError& error) {
    CHECK(std::string(error.what()) ==
          "job.yaml:3:3: the columns of dataset `d` have different lengths: `x` has 3 rows, `y` "
          "has 2 rows");
  }
  dataset.columns[0].rows = {{1, 3}};
  Dataset fits(request);
  CHECK(fits.rows() == 2);
  CHECK(read<int32_t>(fits.column("y"), {1}) == std::vector<int32_t>{1});
}

TEST_CASE("a file that is not there is named with the job-file line", "[data]") {
  const Folder folder;
  CHECK(folder.refusal(column("no.idx", {})) == "job.yaml:4:12: cannot read " +
                                                    (folder / "no.idx").string() +
                                                    ": No such file or directory");
}

}  // namespace
}  // namespace flow::data
