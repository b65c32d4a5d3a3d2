// Plans with datasets of every source: their JSON, and the check of hostile ones.
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/model/dataset.h"
#include "runtime/plan/serialize.h"
#include "tests/unit/plan/corruptions.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using sample::JobBuilder;

namespace {

Column column(std::string name, SourceKind source, Shape row) {
  Column made;
  made.name = std::move(name);
  made.source = source;
  made.files = {made.name + ".1", made.name + ".2"};
  made.row_shape = std::move(row);
  return made;
}

Column cells(std::string name, SourceKind source, CellType type, Shape row = {}) {
  Column made = column(std::move(name), source, std::move(row));
  made.cell.emplace().type = type;
  if (type == CellType::kCategory) made.cell->categories.emplace();
  if (type == CellType::kText) made.text.emplace();
  if (type == CellType::kImage || source == SourceKind::kImages) made.image.emplace();
  if (source == SourceKind::kCsv) made.csv.emplace().column = "x";
  if (source == SourceKind::kTar) made.tar.emplace().field = {"jpg", "png"};
  return made;
}

enum Position : size_t { kNumber, kKind, kPixels, kTokens, kPhoto };

Dataset table() {
  Dataset made;
  made.name = "table";
  Column number = cells("number", SourceKind::kCsv, CellType::kNumber);
  number.mean.learn = number.std.learn = true;
  number.learned_from = "other.number";
  number.cell->missing.kind = Replacement::Kind::kMedian;
  number.cell->missing_values = {"-", "?"};
  Column kind = cells("kind", SourceKind::kCsv, CellType::kCategory, {3});
  kind.cell->categories = {Categories::Kind::kListed, {"a", "b"}, ""};
  kind.cell->unknown = {Replacement::Kind::kExtra, 0, ""};
  kind.cell->one_hot = 3;
  Column pixels = cells("pixels", SourceKind::kTar, CellType::kImage, {3, 8, 8});
  pixels.image->size = {9, 9, 0};
  pixels.image->background = {1, 2, 3};
  pixels.image->augment = {augments::Flip(), augments::Crop{{8, 8}, 2}, augments::Erase()};
  Column tokens = cells("tokens", SourceKind::kText, CellType::kText, {16});
  tokens.text->lines = true;
  tokens.text->length = 16;
  tokens.text->begin = 1;
  tokens.text->tokenizer.kind = Tokenizer::Kind::kBytePairs;
  tokens.text->tokenizer.vocab = "vocab.json";
  tokens.text->tokenizer.merges = "merges.txt";
  tokens.text->tokenizer.special = {"<end>"};
  made.columns = {number, kind, pixels, tokens};
  made.columns.push_back(cells("photo", SourceKind::kImages, CellType::kCategory));
  made.columns.back().image->take = ImageFormat::Take::kClass;
  made.on_bad_row = Dataset::OnBadRow::kSkip;
  made.max_bad_rows = 0;
  made.cache = ".cache";
  made.split = Split{{{"validation", 0.1}, {"test", 0.2}}, 7, Split::Take::kRandom, "kind", ""};
  made.mix = Mix{0.2, 0, {"pixels", "kind"}};
  return made;
}

Dataset series() {
  Dataset made;
  made.name = "series";
  Column stream = cells("stream", SourceKind::kText, CellType::kText, {4});
  stream.window = Window{4, 2, 1};
  Column raw = column("raw", SourceKind::kBin, {4, 2});
  raw.bin.emplace().dtype = "uint16";
  raw.window = Window{4, 2, 0};
  raw.mean.values = {1, 2};
  Column tensor = column("tensor", SourceKind::kSafetensors, {4});
  tensor.array = "x";
  made.columns = {stream, raw, tensor};
  made.split = Split{{{"last", 0.5}}, 0, Split::Take::kLast, "", ""};
  return made;
}

/// A train job that reads parts of both datasets.
Plan data_plan() {
  JobBuilder b("train", true);
  b.job.datasets = {table(), series()};
  b.input("number", DType::kFloat32, {4}, FromDataset{"table", "validation", "number"});
  const TensorId kind = b.input("kind", DType::kFloat32, {4, 3}, FromDataset{"table", "", "kind"});
  b.input("pixels", DType::kFloat32, {4, 3, 8, 8}, FromDataset{"table", "test", "pixels"});
  b.input("raw", DType::kInt32, {4, 4, 2}, FromDataset{"series", "last", "raw"});
  const TensorId weight = b.variable("weight", {2, 3}, initializers::Zeros());
  const TensorId y =
      b.one("matmul", "y", {kind, weight}, {{"transpose_a", false}, {"transpose_b", true}});
  b.minimize(
      b.one("reduce_mean", "loss", {y}, {{"axes", sample::Integers{0, 1}}, {"keepdims", false}}));
  b.job.run.sampling = Sampling{Sampling::Kind::kBalance, "table", "", "kind", 100};
  b.job.run.data_threads = 3;
  return {kVersion, "job.yaml", "", {b.done()}, {}};
}

/// A corruption of a column of `table`.
sample::Corruption corrupt(std::string expected, Position position,
                           std::function<void(Column&)> change) {
  return {std::move(expected), [=](Job& job) { change(job.datasets[0].columns[position]); }};
}
sample::Corruption corrupt_dataset(std::string expected, std::function<void(Dataset&)> change) {
  return {std::move(expected), [=](Job& job) { change(job.datasets[0]); }};
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("the JSON of datasets of every source reads back as the same plan", "[plan]") {
  const Plan plan = data_plan();
  CHECK(sample::refusal(plan).empty());
  const std::string text = to_json(plan);
  const Plan back = from_json(text, "a.plan");
  CHECK(to_json(back) == text);
  const Dataset& read = back.jobs[0].datasets[0];
  CHECK(read.max_bad_rows == 0);
  CHECK(read.split->parts[1].name == "test");
  CHECK(read.split->seed == 7);
  CHECK(read.mix->columns == std::vector<std::string>{"pixels", "kind"});
  CHECK(read.columns[kNumber].learned_from == "other.number");
  CHECK(read.columns[kNumber].cell->missing_values->size() == 2);
  CHECK(read.columns[kKind].cell->categories->names == std::vector<std::string>{"a", "b"});
  CHECK(read.columns[kPixels].image->background == std::array<int64_t, 3>{1, 2, 3});
  CHECK(std::get<augments::Crop>(read.columns[kPixels].image->augment[1]).pad == 2);
  CHECK(read.columns[kTokens].text->begin == 1);
  CHECK(!read.columns[kTokens].text->end);
  CHECK(back.jobs[0].run.sampling->epoch_rows == 100);
}

TEST_CASE("the hash of a plan covers every part of a dataset but its place", "[plan]") {
  const Plan plan = data_plan();
  const auto differs = [&](const std::function<void(Dataset&)>& change) {
    Plan other = plan;
    change(other.jobs[0].datasets[0]);
    return hash(other) != hash(plan);
  };
  CHECK(differs([](Dataset& d) { d.columns[kNumber].mean.learn = false; }));
  CHECK(differs([](Dataset& d) { d.columns[kNumber].csv->delimiter = ";"; }));
  CHECK(differs([](Dataset& d) { d.columns[kPixels].image->augment.pop_back(); }));
  CHECK(differs([](Dataset& d) { d.columns[kTokens].text->end = 0; }));
  CHECK(differs([](Dataset& d) { d.split->seed = 8; }));
  CHECK(differs([](Dataset& d) { d.mix->cutmix = 1; }));
  CHECK_FALSE(differs([](Dataset& d) { d.where = d.columns[0].where = "elsewhere"; }));
}

TEST_CASE("columns have the keys of their source", "[plan]") {
  sample::check_corruptions(
      {corrupt("format csv: missing `csv`", kNumber, [](Column& c) { c.csv.reset(); }),
       corrupt("format csv: missing `cell`", kNumber, [](Column& c) { c.cell.reset(); }),
       corrupt("format csv: unexpected `text`", kNumber, [](Column& c) { c.text.emplace(); }),
       corrupt("format csv: unexpected `bin`", kNumber, [](Column& c) { c.bin.emplace(); }),
       corrupt("format csv: unexpected `array`", kNumber, [](Column& c) { c.array = "x"; }),
       corrupt("format tar: missing `tar`", kPixels, [](Column& c) { c.tar.reset(); }),
       corrupt("format tar: missing `image`", kPixels, [](Column& c) { c.image.reset(); }),
       corrupt("format tar: unexpected `window`", kPixels,
               [](Column& c) {
                 c.window = Window{3, 3, 0};
               }),
       corrupt("format text: missing `text`", kTokens, [](Column& c) { c.text.reset(); }),
       corrupt("cells of type npy", kNumber, [](Column& c) { c.cell->type = CellType::kNpy; }),
       corrupt("only categories have a list", kNumber,
               [](Column& c) { c.cell->categories.emplace(); }),
       corrupt("only categories have a list", kKind, [](Column& c) { c.cell->categories.reset(); }),
       corrupt("only the classes of images", kPhoto,
               [](Column& c) { c.image->take = ImageFormat::Take::kImage; })},
      false, data_plan());
}

TEST_CASE("the values of a column are within their bounds", "[plan]") {
  sample::check_corruptions(
      {corrupt("`scale` is inf", kNumber, [](Column& c) { c.scale = kInfinite; }),
       corrupt("`delimiter` is `ab`", kNumber, [](Column& c) { c.csv->delimiter = "ab"; }),
       corrupt("`delimiter` is empty", kNumber, [](Column& c) { c.csv->delimiter = ""; }),
       corrupt("`quote` is `\xff`", kNumber, [](Column& c) { c.csv->quote = "\xff"; }),
       corrupt("one character has two meanings", kNumber, [](Column& c) { c.csv->quote = ","; }),
       corrupt("`skip` is -1", kNumber, [](Column& c) { c.csv->skip = -1; }),
       corrupt("either `column` or `columns`", kNumber, [](Column& c) { c.csv->column = ""; }),
       corrupt("is learned and has values", kNumber, [](Column& c) { c.mean.values = {1}; }),
       corrupt("`missing: category` for cells of type number", kNumber,
               [](Column& c) {
                 c.cell->missing = {Replacement::Kind::kCategory, 0, "x"};
               }),
       corrupt("`missing` is nan", kNumber,
               [](Column& c) {
                 c.cell->missing = {Replacement::Kind::kNumber, sample::kNaN, ""};
               }),
       corrupt("`unknown: extra` for cells of type number", kNumber,
               [](Column& c) { c.cell->unknown.kind = Replacement::Kind::kExtra; }),
       corrupt("`unknown: mean`", kKind,
               [](Column& c) { c.cell->unknown.kind = Replacement::Kind::kMean; }),
       corrupt("unexpected category", kKind, [](Column& c) { c.cell->unknown.category = "x"; }),
       corrupt("`one_hot` is -1", kKind, [](Column& c) { c.cell->one_hot = -1; }),
       corrupt("`one_hot` for cells of type number", kNumber,
               [](Column& c) { c.cell->one_hot = 2; }),
       corrupt("`max_categories` requires", kKind, [](Column& c) { c.cell->max_categories = 2; }),
       corrupt("a category occurs twice", kKind,
               [](Column& c) {
                 c.cell->categories->names = {"a", "a"};
               }),
       corrupt("with the values of another kind", kKind,
               [](Column& c) { c.cell->categories->file = "x"; }),
       corrupt("`field` is empty", kPixels, [](Column& c) { c.tar->field.clear(); }),
       corrupt("bits is 12", kPixels, [](Column& c) { c.image->bits = 12; }),
       corrupt("fill is 256", kPixels, [](Column& c) { c.image->fill = 256; }),
       corrupt("`background` is 256", kPixels, [](Column& c) { (*c.image->background)[2] = 256; }),
       corrupt("invalid size of images", kPixels, [](Column& c) { c.image->size.shorter = 3; }),
       corrupt("invalid size of images", kPixels, [](Column& c) { c.image->size.height = -1; }),
       corrupt("`max_pixels` is 0", kPixels, [](Column& c) { c.image->max_pixels = 0; }),
       corrupt("`p` is 2", kPixels,
               [](Column& c) { std::get<augments::Flip>(c.image->augment[0]).p = 2; }),
       corrupt("`pad` is -1", kPixels,
               [](Column& c) { std::get<augments::Crop>(c.image->augment[1]).pad = -1; }),
       corrupt("`flip` follows", kPixels,
               [](Column& c) { c.image->augment.emplace_back(augments::Flip()); }),
       corrupt("`begin` is -1", kTokens, [](Column& c) { c.text->begin = -1; }),
       corrupt("rows of tokens require `length`", kTokens, [](Column& c) { c.text->length = 0; }),
       corrupt("requires `window`", kTokens, [](Column& c) { c.text->lines = false; }),
       corrupt("expected its files only", kTokens,
               [](Column& c) { c.text->tokenizer.merges.clear(); }),
       corrupt("unexpected `characters`", kTokens,
               [](Column& c) { c.text->tokenizer.characters = "abc"; }),
       corrupt("`files` is empty", kNumber, [](Column& c) { c.files[1] = ""; }),
       corrupt("`files` contains a NUL", kNumber,
               [](Column& c) { c.files[1] = std::string("a\0b", 3); })},
      false, data_plan());
}

TEST_CASE("windows and raw files are checked", "[plan]") {
  const auto raw = [](std::string expected, std::function<void(Column&)> change) {
    return sample::Corruption{std::move(expected),
                              [=](Job& job) { change(job.datasets[1].columns[1]); }};
  };
  sample::check_corruptions(
      {raw("`length` is 0", [](Column& c) { c.window->length = 0; }),
       raw("`stride` is 0", [](Column& c) { c.window->stride = 0; }),
       raw("`shift` is -1", [](Column& c) { c.window->shift = -1; }),
       raw("`stride` is 9.22", [](Column& c) { c.window->stride = INT64_MAX; }),
       raw("windows of two strides", [](Column& c) { c.window->stride = 1; }),
       raw("3 values of `mean`",
           [](Column& c) {
             c.mean.values = {1, 2, 3};
           }),
       raw("unknown type `uint24` of numbers", [](Column& c) { c.bin->dtype = "uint24"; }),
       raw("`offset` is -1", [](Column& c) { c.bin->offset = -1; }),
       {"windows exclude", [](Job& j) { j.datasets[1].split->take = Split::Take::kRandom; }},
       {"windows exclude", [](Job& j) { j.datasets[1].on_bad_row = Dataset::OnBadRow::kSkip; }}},
      false, data_plan());
}

TEST_CASE("the options of a dataset are checked", "[plan]") {
  sample::check_corruptions(
      {corrupt_dataset("a split without parts", [](Dataset& d) { d.split->parts.clear(); }),
       corrupt_dataset("invalid or duplicate part `a/b`",
                       [](Dataset& d) { d.split->parts[0].name = "a/b"; }),
       corrupt_dataset("invalid or duplicate part `test`",
                       [](Dataset& d) { d.split->parts[0].name = "test"; }),
       corrupt_dataset("`test` is nan",
                       [](Dataset& d) { d.split->parts[1].fraction = sample::kNaN; }),
       corrupt_dataset("add up to 1.09", [](Dataset& d) { d.split->parts[1].fraction = 0.99; }),
       corrupt_dataset("a split by and with groups", [](Dataset& d) { d.split->group = "kind"; }),
       corrupt_dataset("unknown column `x`", [](Dataset& d) { d.split->by = "x"; }),
       corrupt_dataset("unknown column `x`", [](Dataset& d) { d.mix->columns = {"x"}; }),
       corrupt_dataset("`mixup` is 9", [](Dataset& d) { d.mix->mixup = 9; }),
       corrupt_dataset("neither mixup nor cutmix", [](Dataset& d) { d.mix->mixup = 0; }),
       corrupt_dataset("`max_bad_rows` is -1", [](Dataset& d) { d.max_bad_rows = -1; }),
       {"unknown part `table/train`",
        [](Job& j) { std::get<FromDataset>(j.inputs[0].source).part = "train"; }},
       {"unknown dataset `x`",
        [](Job& j) { std::get<FromDataset>(j.inputs[0].source).dataset = "x"; }},
       {"unknown column `table.x`", [](Job& j) { j.run.sampling->column = "x"; }},
       {"only weights and balance", [](Job& j) { j.run.sampling->column = ""; }},
       {"does not shuffle", [](Job& j) { j.run.shuffle = true; }},
       {"epoch_rows is out of range", [](Job& j) { j.run.sampling->epoch_rows = -1; }},
       {"data_threads is out of range", [](Job& j) { j.run.data_threads = 0; }},
       {"`buffer` is 0", [](Job& j) { j.run.shuffle_buffer.emplace(); }}},
      false, data_plan());
}
