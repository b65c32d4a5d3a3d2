// Datasets with a cache: what is read with and without one, and when it is made again.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "runtime/base/text.h"
#include "runtime/data/dataset/dataset.h"
#include "runtime/data/image/encode.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

/// A dataset in a folder of its own.
struct Data : FreshDirectory {
  plan::Dataset dataset;
  mutable DecodePool pool{3};

  Data() {
    dataset.name = "d";
    dataset.cache = "cache";
    dataset.where = "job.yaml:3:3";
  }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((*this / name).parent_path());
    write_text_atomically(*this / name, text);
  }

  /// Writes a PNG file whose samples count from `first`.
  void write_image(const std::string& name, int first, int64_t height = 2, int64_t width = 3,
                   int bits = 8) const {
    Image image;
    image.reshape(3, height, width, bits);
    for (size_t i = 0; i < image.data.size(); ++i)
      image.data[i] = static_cast<std::byte>(first + static_cast<int>(i));
    const std::vector<std::byte> png = encode_png(image);
    write(name, {reinterpret_cast<const char*>(png.data()), png.size()});
  }

  plan::Column& add(const std::string& name, plan::SourceKind source, const std::string& file,
                    plan::CellType type, Shape row = {}) {
    plan::Column column;
    column.name = name;
    column.source = source;
    column.files = {file};
    column.where = "job.yaml:4:5";
    column.row_shape = std::move(row);
    column.cell.emplace().type = type;
    if (source == plan::SourceKind::kCsv) column.csv.emplace();
    if (type == plan::CellType::kImage) column.image.emplace();
    if (type == plan::CellType::kCategory)
      column.cell->categories = plan::Categories{plan::Categories::Kind::kListed, {"a", "b"}, ""};
    return dataset.columns.emplace_back(std::move(column));
  }

  plan::Column& add_images(Shape row = {3, 2, 3}) {
    return add("image", plan::SourceKind::kImages, "pets", plan::CellType::kImage, std::move(row));
  }

  std::unique_ptr<Dataset> open(const plan::Dataset& which) const {
    DatasetRequest request;
    request.dataset = &which;
    request.root = path();
    request.may_learn = true;
    request.options.pool = &pool;
    for (const plan::Column& column : which.columns) request.columns.push_back(column.name);
    return std::make_unique<Dataset>(request);
  }

  /// Returns all rows of all columns as float64, and the remarks.
  using Contents = std::pair<std::map<std::string, std::vector<double>>, std::vector<std::string>>;
  Contents contents(const plan::Dataset& which) const {
    const auto opened = open(which);
    Contents all;
    all.second = opened->remarks();
    for (const plan::Column& column : which.columns) {
      Column& rows = opened->column(column.name);
      std::vector<double>& values = all.first[column.name];
      values.resize(static_cast<size_t>(opened->rows() * rows.row_shape().elements()));
      std::vector<int64_t> order;
      for (int64_t row = 0; row < opened->rows(); ++row) order.push_back(row);
      rows.read(order, DType::kFloat64, std::as_writable_bytes(std::span(values)));
    }
    for (const auto count : opened->rows_of_files())
      all.first["rows_of_files"].push_back(static_cast<double>(count));
    return all;
  }
  Contents uncached() const {
    plan::Dataset plain = dataset;
    plain.cache.clear();
    return contents(plain);
  }

  /// Checks that the first and the second run with a cache read what runs without one read.
  void check_equal() const {
    const Contents expected = uncached();
    CHECK(contents(dataset) == expected);
    const std::string before = record();
    CHECK(contents(dataset) == expected);
    CHECK(record() == before);
  }

  std::string record() const { return read_text(*this / "cache/d.json"); }

  std::string error(const plan::Dataset& which) const {
    try {
      contents(which);
    } catch (const RunError& error) {
      return error.what();
    }
    return "";
  }
};

void add_cells(Data& data) {
  using plan::CellType;
  const auto csv = plan::SourceKind::kCsv;
  data.write("1.csv", "x,n,k,t\n1.5,1,a,one\n,2,b,two\n-2,,a,three\n");
  data.write("2.csv", "x,n,k,t\n4,-9223372036854775808,b,\nnan,7,,six\n");
  auto& x = data.add("x", csv, "*.csv", CellType::kNumber);
  x.cell->missing.kind = plan::Replacement::Kind::kMedian;
  auto& n = data.add("n", csv, "*.csv", CellType::kInteger);
  n.cell->missing = {plan::Replacement::Kind::kNumber, 5, ""};
  auto& k = data.add("k", csv, "*.csv", CellType::kCategory);
  k.cell->missing.kind = plan::Replacement::Kind::kExtra;
}

}  // namespace

TEST_CASE("A dataset has equal rows with and without a cache", "[data]") {
  Data data;
  add_cells(data);
  data.check_equal();
  // The median of 1.5, -2 and 4 replaces missing numbers.
  const auto rows = data.contents(data.dataset).first;
  CHECK(rows.at("x") == std::vector<double>{1.5, 1.5, -2, 4, 1.5});
  CHECK(rows.at("n") == std::vector<double>{1, 2, 5, -0x1p63, 7});
  CHECK(rows.at("k") == std::vector<double>{0, 1, 0, 1, 2});
  CHECK(rows.at("rows_of_files") == std::vector<double>{3, 2});
  const Array cached = io::read_npy(data / "cache/d.n.npy");
  CHECK(cached.shape() == Shape{5, 1});
  CHECK(cached.view().as<int64_t>()[3] == std::numeric_limits<int64_t>::min());
  CHECK(io::read_npy(data / "cache/d.x.missing.npy").view().as<uint8_t>()[4] == 1);
}

TEST_CASE("Cached rows come from the cache", "[data]") {
  Data data;
  add_cells(data);
  const auto before = data.contents(data.dataset);
  const auto time = fs::last_write_time(data / "1.csv");
  data.write("1.csv", "x,n,k,t\n2.5,1,a,one\n,2,b,two\n-2,,a,three\n");
  fs::last_write_time(data / "1.csv", time);
  CHECK(data.contents(data.dataset) == before);
  CHECK(data.uncached() != before);
  fs::last_write_time(data / "1.csv", time + std::chrono::seconds(1));
  data.check_equal();
}

TEST_CASE("Selected rows are cached, and other selections are not taken for them", "[data]") {
  Data data;
  add_cells(data);
  for (plan::Column& column : data.dataset.columns) column.rows = {{3, 5}, {0, 2}};
  data.check_equal();
  CHECK(io::read_npy(data / "cache/d.x.npy").shape() == Shape{4, 1});
  for (plan::Column& column : data.dataset.columns) column.rows = {{1, plan::Column::kToTheLast}};
  data.check_equal();
}

TEST_CASE("Bad rows keep their places and messages in a cache", "[data]") {
  Data data;
  add_cells(data);
  data.write("1.csv", "x,n,k,t\n1.5,1,a,one\n?!,2,b,two\n-2,3,z,three\n");
  CHECK(data.error(data.dataset).find("1.csv:3:1: \"?!\" is not a number") != std::string::npos);
  CHECK_FALSE(fs::exists(data / "cache/d.json"));
  data.dataset.on_bad_row = plan::Dataset::OnBadRow::kSkip;
  data.check_equal();
  const auto contents = data.contents(data.dataset);
  CHECK(contents.first.at("n") == std::vector<double>{1, -0x1p63, 7});
  REQUIRE(contents.second.size() == 1);
  CHECK(contents.second[0].find("2 bad rows of dataset `d` are left out, first ") !=
        std::string::npos);
  CHECK(contents.second[0].find("1.csv:3:1: \"?!\" is not a number") != std::string::npos);
}

TEST_CASE("Categories are learned from a cache as from the files", "[data]") {
  Data data;
  add_cells(data);
  data.dataset.columns[2].cell->categories->kind = plan::Categories::Kind::kLearned;
  data.check_equal();
  const auto opened = data.open(data.dataset);
  CHECK(opened->learned().at("d.k").categories == std::vector<std::string>{"a", "b"});
}

TEST_CASE("Jobs that read different columns share a cache", "[data]") {
  Data data;
  add_cells(data);
  const auto all = data.contents(data.dataset);
  plan::Dataset fewer = data.dataset;
  fewer.columns.pop_back();
  const std::string record = data.record();
  CHECK(data.contents(fewer).first.at("x") == all.first.at("x"));
  CHECK(data.record() == record);
  fs::remove_all(data / "cache");
  data.contents(fewer);
  data.check_equal();
  plan::Dataset last = data.dataset;
  last.columns.erase(last.columns.begin(), last.columns.begin() + 2);
  fs::remove_all(data / "cache");
  data.contents(fewer);
  data.contents(last);
  const std::string both = data.record();
  data.check_equal();
  CHECK(data.record() == both);
}

TEST_CASE("Decoded images are cached before they are augmented", "[data]") {
  Data data;
  for (int i = 0; i < 70; ++i) data.write_image(fmt::format("pets/{:02}.png", i), i);
  data.add_images();
  data.check_equal();
  const Array cached = io::read_npy(data / "cache/d.image.npy");
  CHECK(cached.shape() == Shape{70, 3, 2, 3});
  plan::Dataset cropped = data.dataset;
  cropped.columns[0].image->augment = {plan::augments::Crop{}};
  std::get<plan::augments::Crop>(cropped.columns[0].image->augment[0]).size = {1, 2};
  cropped.columns[0].row_shape = {3, 1, 2};
  const std::string record = data.record();
  plan::Dataset plain = cropped;
  plain.cache.clear();
  CHECK(data.contents(cropped) == data.contents(plain));
  CHECK(data.record() == record);
}

TEST_CASE("Images that cannot be decoded are bad rows of a cache, too", "[data]") {
  Data data;
  for (int i = 0; i < 4; ++i) data.write_image(fmt::format("pets/{}.png", i), i);
  data.write("pets/2.png", "\x89PNG\r\n\x1a\n broken");
  data.add_images();
  const std::string expected = data.error([&] {
    plan::Dataset plain = data.dataset;
    plain.cache.clear();
    return plain;
  }());
  CHECK(expected.find("pets/2.png") != std::string::npos);
  CHECK(data.error(data.dataset) == expected);
  CHECK(data.error(data.dataset) == expected);
  data.dataset.on_bad_row = plan::Dataset::OnBadRow::kSkip;
  data.check_equal();
  CHECK(data.open(data.dataset)->rows() == 3);
  CHECK(data.open(data.dataset)->counts().bad_rows == 1);
}

TEST_CASE("A cache requires images of one size", "[data]") {
  Data data;
  data.write_image("pets/0.png", 0);
  data.write_image("pets/1.png", 1, 3, 3);
  data.add_images();
  CHECK(data.error(data.dataset) ==
        "job.yaml:4:5: pets/1.png: the image has shape [3, 3, 3], but the first one has "
        "[3, 2, 3]; a cache requires one size");
  CHECK(fs::is_empty(data / "cache"));
  data.dataset.columns[0].image->size = {2, 3, 0};
  data.check_equal();
}

TEST_CASE("Images of a CSV file are cached with the files that it names", "[data]") {
  Data data;
  data.write_image("0.png", 0);
  data.write_image("1.png", 7);
  data.write("i.csv", "image\n1.png\n0.png\nnone.png\n1.png\n");
  data.add("image", plan::SourceKind::kCsv, "i.csv", plan::CellType::kImage, {3, 2, 3});
  data.dataset.on_bad_row = plan::Dataset::OnBadRow::kSkip;
  data.check_equal();
  CHECK(data.open(data.dataset)->rows() == 3);
  data.write_image("none.png", 9);
  CHECK(data.open(data.dataset)->rows() == 4);
  data.check_equal();
}

TEST_CASE("A missing file has the same message with a cache", "[data]") {
  Data data;
  data.add("x", plan::SourceKind::kCsv, "none.csv", plan::CellType::kNumber);
  CHECK(data.error(data.dataset).find("job.yaml:4:5: ") == 0);
}

}  // namespace flow::data
