// Summaries of datasets: rows, parts, values, bad rows and samples.
#include "runtime/data/summary/summary.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/data/image/decode.h"
#include "runtime/data/image/encode.h"
#include "runtime/data/summary/samples.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

using Extents = std::vector<std::optional<int64_t>>;

struct SummaryFolder : FreshDirectory {
  void write(const std::string& name, const std::string& content) const {
    make_folders((*this / name).parent_path());
    write_text_atomically(*this / name, content);
  }
  void write_image(const std::string& name, int64_t height, int64_t width, uint8_t value) const {
    Image image;
    image.reshape(1, height, width, 8);
    std::ranges::fill(image.samples<uint8_t>(), value);
    const std::vector<std::byte> png = encode_png(image);
    write(name, {reinterpret_cast<const char*>(png.data()), png.size()});
  }
};

plan::Column csv_column(const std::string& name, plan::CellType type) {
  plan::Column column;
  column.name = name;
  column.source = plan::SourceKind::kCsv;
  column.files = {"x.csv"};
  column.csv.emplace();
  column.cell.emplace();
  column.cell->type = type;
  if (type == plan::CellType::kCategory) column.cell->categories.emplace();
  column.where = "job.yaml:4:5";
  return column;
}

plan::Column image_column(const std::string& name, plan::ImageFormat::Take take) {
  plan::Column column;
  column.name = name;
  column.source = plan::SourceKind::kImages;
  column.files = {"pets"};
  column.image.emplace();
  column.image->take = take;
  column.cell.emplace();
  column.cell->type =
      take == plan::ImageFormat::Take::kClass ? plan::CellType::kCategory : plan::CellType::kImage;
  if (take == plan::ImageFormat::Take::kClass) column.cell->categories.emplace();
  return column;
}

plan::Dataset dataset_of(std::vector<plan::Column> columns) {
  plan::Dataset dataset;
  dataset.name = "d";
  dataset.columns = std::move(columns);
  dataset.where = "job.yaml:3:3";
  return dataset;
}

std::string bytes_of_file(const fs::path& path) { return read_text(path); }

}  // namespace

TEST_CASE("numbers, categories and bad rows of a CSV file", "[data]") {
  const SummaryFolder folder;
  folder.write("x.csv", "area,kind\n1.5,b\n,a\n12x,a\n4,b\n-2,\n7,a,1\n10,b\n");
  plan::Column area = csv_column("area", plan::CellType::kNumber);
  area.cell->missing.kind = plan::Replacement::Kind::kMedian;
  area.scale = 100;  // ignored, as are the mean and the standard deviation
  area.mean.learn = true;
  plan::Column kind = csv_column("kind", plan::CellType::kCategory);
  kind.cell->missing.kind = plan::Replacement::Kind::kExtra;
  DecodePool pool(2);
  const DatasetReader reader(dataset_of({area, kind}), folder.path(), pool);
  const DatasetSummary summary = reader.summary();
  CHECK(summary.rows == 5);
  CHECK(summary.bad_rows == 2);
  CHECK(summary.parts.empty());
  const ColumnSummary& numbers = summary.columns[0];
  CHECK(numbers.type == "number");
  CHECK(numbers.shape.empty());
  CHECK(numbers.missing == 1);
  REQUIRE(numbers.numbers);
  // numpy.mean([1.5, 4, -2, 10]), numpy.std([1.5, 4, -2, 10])
  CHECK(numbers.numbers->min == -2);
  CHECK(numbers.numbers->max == 10);
  CHECK(numbers.numbers->mean == 3.375);
  CHECK(numbers.numbers->std == Approx(4.378570543465392));
  const ColumnSummary& categories = summary.columns[1];
  CHECK(categories.type == "category");
  CHECK(categories.missing == 1);
  REQUIRE(categories.categories);
  CHECK(categories.categories->names == std::vector<std::string>{"a", "b"});
  CHECK(categories.categories->counts == std::vector<int64_t>{1, 3});
  CHECK(categories.categories->others == 0);

  const std::vector<ListedBadRow> bad = reader.bad_rows(100);
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].file == (folder / "x.csv").string());
  CHECK(bad[0].line == 4);
  CHECK(bad[0].column == 1);
  CHECK(bad[0].message.starts_with("\"12x\" is not a number"));
  CHECK(bad[1].line == 7);
  CHECK(bad[0].text().starts_with((folder / "x.csv").string() + ":4:1: \"12x\""));
  CHECK(reader.bad_rows(1).size() == 1);
}

TEST_CASE("listed categories keep their order, and other values are counted", "[data]") {
  const SummaryFolder folder;
  folder.write("x.csv", "kind\nb\na\nc\nb\n");
  plan::Column kind = csv_column("kind", plan::CellType::kCategory);
  kind.cell->categories->kind = plan::Categories::Kind::kListed;
  kind.cell->categories->names = {"z", "b"};
  kind.cell->unknown.kind = plan::Replacement::Kind::kExtra;
  DecodePool pool(1);
  const DatasetReader reader(dataset_of({kind}), folder.path(), pool);
  const CategorySummary categories = reader.summary().columns[0].categories.value();
  CHECK(categories.names == std::vector<std::string>{"z", "b"});
  CHECK(categories.counts == std::vector<int64_t>{0, 2});
  CHECK(categories.others == 2);
}

TEST_CASE("parts count rows that are not bad", "[data]") {
  const SummaryFolder folder;
  std::string text = "a\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + "\n";
  folder.write("x.csv", text + "bad\n");
  plan::Dataset dataset = dataset_of({csv_column("a", plan::CellType::kInteger)});
  dataset.split.emplace();
  dataset.split->parts = {{"validation", 0.25}, {"test", 0.1}};
  DecodePool pool(1);
  const DatasetSummary summary = DatasetReader(dataset, folder.path(), pool).summary();
  CHECK(summary.rows == 20);
  CHECK(summary.parts ==
        std::vector<std::pair<std::string, int64_t>>{{"validation", 5}, {"test", 2}});
  CHECK(summary.columns[0].type == "integer");
}

TEST_CASE("a dataset of bad rows only has no values and no parts", "[data]") {
  const SummaryFolder folder;
  folder.write("x.csv", "a\nx\ny\n");
  plan::Dataset dataset = dataset_of({csv_column("a", plan::CellType::kNumber)});
  dataset.split.emplace();
  dataset.split->parts = {{"validation", 0.5}};
  DecodePool pool(1);
  const DatasetSummary summary = DatasetReader(dataset, folder.path(), pool).summary();
  CHECK(summary.rows == 0);
  CHECK(summary.bad_rows == 2);
  CHECK(summary.parts.empty());
  CHECK_FALSE(summary.columns[0].numbers.has_value());
}

TEST_CASE("images, their classes and their samples", "[data]") {
  const SummaryFolder folder;
  folder.write_image("pets/cat/1.png", 2, 3, 10);
  folder.write_image("pets/cat/2.png", 5, 4, 20);
  folder.write_image("pets/dog/1.png", 1, 2, 30);
  folder.write("pets/dog/2.png", "no image");
  folder.write_image("pets/stray.png", 9, 9, 40);
  make_folders(folder / "pets/eel");
  plan::Column image = image_column("image", plan::ImageFormat::Take::kImage);
  image.image->channels = plan::ImageFormat::Channels::kGrey;
  image.image->augment.push_back(plan::augments::Flip{});
  DecodePool pool(2);
  const DatasetReader reader(
      dataset_of({image, image_column("label", plan::ImageFormat::Take::kClass)}), folder.path(),
      pool);
  const DatasetSummary summary = reader.summary();
  CHECK(summary.rows == 3);
  CHECK(summary.bad_rows == 2);
  CHECK(summary.columns[0].type == "image");
  CHECK(summary.columns[0].shape == Extents{1, {}, {}});
  REQUIRE(summary.columns[0].sizes);
  CHECK(summary.columns[0].sizes->smallest == ImageSize{1, 2});
  CHECK(summary.columns[0].sizes->largest == ImageSize{5, 4});
  CHECK(summary.columns[1].categories->names == std::vector<std::string>{"cat", "dog", "eel"});
  CHECK(summary.columns[1].categories->counts == std::vector<int64_t>{2, 1, 0});

  const std::vector<ListedBadRow> bad = reader.bad_rows(100);
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].file == "pets/dog/2.png");
  CHECK(bad[1].file == "pets/stray.png");
  CHECK_FALSE(bad[0].line.has_value());

  CHECK(reader.write_samples(folder / "out", 2) == 2);
  const std::string png = bytes_of_file(folder / "out/image/000001.png");
  Image sample;
  decode_image(std::as_bytes(std::span(png)), {.channels = Channels::kGray}, sample);
  CHECK(sample.size() == ImageSize{5, 4});
  CHECK(std::ranges::all_of(sample.samples<uint8_t>(), [](uint8_t value) { return value == 20; }));
  CHECK_FALSE(fs::exists(folder / "out/image/000002.png"));
  CHECK_FALSE(fs::exists(folder / "out/label"));
}

TEST_CASE("images of one size have a shape", "[data]") {
  const SummaryFolder folder;
  folder.write_image("pets/1.png", 8, 6, 10);
  folder.write_image("pets/2.png", 4, 4, 10);
  plan::Column image = image_column("image", plan::ImageFormat::Take::kImage);
  image.image->size = {.height = 2, .width = 3};
  DecodePool pool(1);
  const DatasetSummary summary = DatasetReader(dataset_of({image}), folder.path(), pool).summary();
  CHECK(summary.columns[0].shape == Extents{3, 2, 3});
  CHECK(summary.columns[0].sizes->largest == ImageSize{8, 6});
}

TEST_CASE("lines of text are decoded without padding", "[data]") {
  const SummaryFolder folder;
  folder.write("x.txt", "abc\n\nh\xc3\xa9llo world\n");
  plan::Column text;
  text.name = "tokens";
  text.source = plan::SourceKind::kText;
  text.files = {"x.txt"};
  text.text.emplace();
  text.text->lines = true;
  text.text->length = 6;
  text.row_shape = {6};
  text.cell.emplace();
  text.cell->type = plan::CellType::kText;
  DecodePool pool(1);
  const DatasetReader reader(dataset_of({text}), folder.path(), pool);
  const DatasetSummary summary = reader.summary();
  CHECK(summary.rows == 3);
  CHECK(summary.columns[0].type == "text");
  CHECK(summary.columns[0].shape == Extents{6});
  CHECK(summary.columns[0].numbers->max == 195);  // the first byte of the accented letter
  CHECK(reader.write_samples(folder / "out", 16) == 3);
  CHECK(read_text(folder / "out/tokens/000000.txt") == "abc");
  CHECK(read_text(folder / "out/tokens/000001.txt").empty());
  CHECK(read_text(folder / "out/tokens/000002.txt") == "h\xc3\xa9llo");
}

TEST_CASE("windows of a stream of characters are samples", "[data]") {
  const SummaryFolder folder;
  folder.write("x.txt", "abcabd\xc3\xa9");
  plan::Column text;
  text.name = "x";
  text.source = plan::SourceKind::kText;
  text.files = {"x.txt"};
  text.text.emplace();
  text.text->tokenizer.kind = plan::Tokenizer::Kind::kCharacters;
  text.window = plan::Window{.length = 3, .stride = 2, .shift = 0};
  text.row_shape = {3};
  text.cell.emplace();
  text.cell->type = plan::CellType::kText;
  DecodePool pool(1);
  const DatasetReader reader(dataset_of({text}), folder.path(), pool);
  const DatasetSummary summary = reader.summary();
  CHECK(summary.rows == 7);
  CHECK(summary.columns[0].shape == Extents{3});
  CHECK(summary.columns[0].categories->names ==
        std::vector<std::string>{"a", "b", "c", "d", "\xc3\xa9"});
  CHECK(summary.columns[0].categories->counts.empty());
  CHECK(reader.write_samples(folder / "out", 16) == 3);
  CHECK(read_text(folder / "out/x/000002.txt") == "bd\xc3\xa9");
}

TEST_CASE("places of bad rows are parsed", "[data]") {
  const std::vector<fs::path> files = {"a: b.csv", "poems.txt"};
  const ListedBadRow csv = parse_bad_row("a: b.csv:17:9: \"x: y\" is wrong", files, "");
  CHECK(csv.file == "a: b.csv");
  CHECK(csv.line == 17);
  CHECK(csv.column == 9);
  CHECK(csv.message == "\"x: y\" is wrong");
  const ListedBadRow line = parse_bad_row("poems.txt:12: wrong", files, "poems.txt:12");
  CHECK(line.file == "poems.txt");
  CHECK(line.line == 12);
  CHECK_FALSE(line.column.has_value());
  CHECK(parse_bad_row("t.tar 0:1: wrong", {}, "t.tar 0:1").message == "wrong");
  CHECK(parse_bad_row("unknown: wrong", files, "other").message == "unknown: wrong");
}

}  // namespace flow::data
