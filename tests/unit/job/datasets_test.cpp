// Datasets of job files: how the keys of columns are merged, and what of them gets into the plan.
#include <catch2/catch.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/plan/model/plan.h"
#include "tests/unit/job/compiled.h"

using namespace flow;
using plan::Column;
using plan::Dataset;
using plan::FromDataset;

namespace {

/// Returns a file with these datasets and a predict job that reads inputs of float32.
std::string file_of(const std::string& data, const std::string& inputs) {
  return "flow: 1\ndata:\n" + data + "jobs:\n  j:\n    type: predict\n    inputs:\n" + inputs +
         "    graph: {out: {op: relu, in: x}}\n    returns: {value: out}\n";
}

std::string input(const std::string& name, const std::string& shape, const std::string& from) {
  return "      " + name + ": {shape: " + shape + ", dtype: float32, from: " + from + "}\n";
}

plan::Job job_of(const std::string& data, const std::string& inputs) {
  return plan_of(file_of(data, inputs)).jobs.at(0);
}

const Column& column_of(const plan::Job& job, size_t dataset, size_t column) {
  return job.datasets.at(dataset).columns.at(column);
}

}  // namespace

TEST_CASE("a column starts from the defaults of its dataset", "[job]") {
  const plan::Job job = job_of(R"(
  d:
    defaults: {csv: [a.csv, b.csv], delimiter: ";", missing: median, size: 3}
    x: {delimiter: ","}
    y: {npy: y.npy}
    z: {column: w, type: integer, missing: error}
    p: {type: image}
)",
                               input("x", "[4]", "d.x") + input("y", "[4, 2]", "d.y") +
                                   input("z", "[4, 1]", "d.z") + input("p", "[4, 3, 3, 3]", "d.p"));
  const Column& x = column_of(job, 0, 0);
  CHECK(x.files == std::vector<std::string>{"a.csv", "b.csv"});
  CHECK(x.csv->delimiter == ",");
  CHECK(x.csv->column == "x");
  CHECK(x.cell->missing.kind == plan::Replacement::Kind::kMedian);
  CHECK_FALSE(x.image);
  const Column& y = column_of(job, 0, 1);
  CHECK(y.source == plan::SourceKind::kNpy);
  CHECK_FALSE(y.csv);
  CHECK(y.row_shape == Shape{2});
  const Column& z = column_of(job, 0, 2);
  CHECK(z.csv->delimiter == ";");
  CHECK(z.csv->column == "w");
  CHECK(z.cell->type == plan::CellType::kInteger);
  CHECK(z.cell->missing.kind == plan::Replacement::Kind::kError);
  CHECK(z.row_shape == Shape{1});
  CHECK(column_of(job, 0, 3).image->size.height == 3);
}

TEST_CASE("`like` takes over keys, the field and learned values, but neither files nor rows",
          "[job]") {
  const plan::Job job = job_of(R"(
  a:
    x: {csv: a.csv, column: width, mean: learn, scale: 2, rows: 0..5}
    k: {csv: a.csv, categories: learn, unknown: extra}
    n: {csv: a.csv}
  b:
    defaults: {csv: b.csv, delimiter: ";"}
    options: {like: a}
    k: {like: a.k, unknown: error}
  c:
    x: {csv: c.csv, like: b.x, scale: 3}
    n: {csv: c.csv, like: b.n}
    q: {csv: c.csv, like: a.k, one_hot: 5}
)",
                               input("x", "[4]", "c.x") + input("n", "[4]", "c.n") +
                                   input("k", "[4]", "b.k") + input("q", "[4, 5]", "c.q"));
  const Column& k = column_of(job, 0, 0);
  CHECK(k.name == "k");
  CHECK(k.cell->unknown.kind == plan::Replacement::Kind::kError);
  CHECK(k.learned_from == "a.k");
  const Column& x = column_of(job, 1, 0);
  CHECK(x.files == std::vector<std::string>{"c.csv"});
  CHECK(x.csv->column == "width");
  CHECK(x.csv->delimiter == ";");
  CHECK(x.scale == 3);
  CHECK(x.rows.empty());
  CHECK(x.mean.learn);
  CHECK(x.learned_from == "a.x");
  const Column& n = column_of(job, 1, 1);
  CHECK(n.csv->column == "n");
  CHECK(n.learned_from.empty());  // nothing to learn
  CHECK(column_of(job, 1, 2).csv->column == "k");
  CHECK(column_of(job, 1, 2).cell->type == plan::CellType::kCategory);
}

TEST_CASE("the type of a column is that of the highest level that implies one", "[job]") {
  const plan::Job job =
      job_of(R"(
  d:
    defaults: {csv: a.csv, type: integer}
    x: {categories: [a, b]}
    y: {tokenizer: bytes, length: 4}
    z: {}
  t:
    a: {tar: t.tar, field: [jpg, png], size: 4}
    b: {tar: t.tar, field: cls}
    c: {tar: t.tar, field: txt, categories: learn}
    e: {tar: t.tar, field: dat, type: npy}
)",
             input("x", "[4]", "d.x") + input("y", "[4, 4]", "d.y") + input("z", "[4]", "d.z") +
                 input("a", "[4, 3, 4, 4]", "t.a") + input("b", "[4]", "t.b") +
                 input("c", "[4]", "t.c") + input("e", "[4, 7]", "t.e"));
  using enum plan::CellType;
  const std::vector<std::vector<plan::CellType>> expected{{kCategory, kText, kInteger},
                                                          {kImage, kInteger, kCategory, kNpy}};
  for (size_t d = 0; d < expected.size(); ++d)
    for (size_t c = 0; c < expected[d].size(); ++c)
      CHECK(column_of(job, d, c).cell->type == expected[d][c]);
}

TEST_CASE("inputs read parts of a dataset", "[job]") {
  const plan::Job job = job_of(
      "  d: {options: {split: {p: 1/4, q: 0.5, seed: 3}}, x: {npy: x.npy}, k: {npy: k.npy}}\n",
      input("x", "[4]", "d/p.x") + input("y", "[4]", "d/q.x"));
  CHECK(std::get<FromDataset>(job.inputs[0].source).rows_name() == "d/p");
  CHECK(std::get<FromDataset>(job.inputs[1].source).part == "q");
  REQUIRE(job.datasets.size() == 1);
  CHECK(job.datasets[0].columns.size() == 1);
  const plan::Split& split = *job.datasets[0].split;
  CHECK(split.parts[0].fraction == 0.25);
  CHECK(split.parts[1].name == "q");
  CHECK(split.seed == 3);
}

TEST_CASE("a plan has the columns that select rows, read or not", "[job]") {
  const auto columns = [](const std::string& options) {
    const plan::Job job = job_of("  d:\n    options: {" + options + R"(}
    x: {csv: a.csv}
    k: {csv: a.csv, categories: learn}
    w: {csv: a.csv}
)",
                                 input("x", "[4]", "d.x"));
    std::vector<std::string> names;
    for (const Column& column : job.datasets[0].columns) names.push_back(column.name);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(columns("") == Names{"x"});
  CHECK(columns("on_bad_row: skip") == Names{"x", "k", "w"});
  CHECK(columns("split: {p: 0.1, by: k}") == Names{"x", "k"});
  CHECK(columns("split: {p: 0.1, group: w}") == Names{"x", "w"});
}

TEST_CASE("windows have the stride of their length, and all of them are in the plan", "[job]") {
  const plan::Job job = job_of(R"(
  d:
    x: {bin: x.bin, dtype: uint16, window: {length: 8}}
    y: {bin: x.bin, dtype: uint16, window: {length: 8, shift: 1}}
)",
                               input("x", "[4, 8]", "d.x"));
  REQUIRE(job.datasets[0].columns.size() == 2);
  CHECK(column_of(job, 0, 0).window->stride == 8);
  CHECK(column_of(job, 0, 1).window->shift == 1);
  CHECK(column_of(job, 0, 1).row_shape == Shape{8});
}

TEST_CASE("forms of values are read", "[job]") {
  const plan::Job job =
      job_of(R"(
  d:
    defaults: {csv: a.csv, quote: none, comment: "#"}
    x: {missing: -1/2, missing_values: ["-", x]}
    a: {categories: {lines: c.txt}, missing: "1", unknown: mean}
    b: {categories: [mean, b], missing: {category: mean}, unknown: b}
    c: {tokenizer: {characters: abc}, length: 3, unknown: extra}
    e: {tokenizer: {vocab: v.json, merges: m.txt, special: "<a>"}, take: lengths}
    f: {type: image, size: {short: 9}, augment: [{random_resized_crop: 4, area: [0.5, 1]}]}
    g: {columns: ["p*", q], mean: [1, 2], std: learn}
)",
             input("x", "[4]", "d.x") + input("a", "[4]", "d.a") + input("b", "[4]", "d.b") +
                 input("c", "[4, 3]", "d.c") + input("e", "[4]", "d.e") +
                 input("f", "[4, 3, 4, 4]", "d.f") + input("g", "[4, 2]", "d.g"));
  using Kind = plan::Replacement::Kind;
  const Column& x = column_of(job, 0, 0);
  CHECK(x.csv->quote.empty());
  CHECK(x.csv->comment == "#");
  CHECK(x.cell->missing.kind == Kind::kNumber);
  CHECK(x.cell->missing.number == -0.5);
  CHECK(x.cell->missing.category.empty());
  CHECK(x.cell->missing_values->front() == "-");
  const Column& a = column_of(job, 0, 1);
  CHECK(a.cell->categories->file == "c.txt");
  CHECK(a.cell->missing == plan::Replacement{Kind::kCategory, 0, "1"});
  CHECK(a.cell->unknown == plan::Replacement{Kind::kCategory, 0, "mean"});
  CHECK(column_of(job, 0, 2).cell->missing == plan::Replacement{Kind::kCategory, 0, "mean"});
  CHECK(column_of(job, 0, 3).text->tokenizer.characters == "abc");
  CHECK(column_of(job, 0, 3).cell->unknown.kind == Kind::kExtra);
  CHECK(column_of(job, 0, 4).text->tokenizer.special == std::vector<std::string>{"<a>"});
  const plan::ImageFormat& image = *column_of(job, 0, 5).image;
  CHECK(image.size.shorter == 9);
  const auto& crop = std::get<plan::augments::RandomResizedCrop>(image.augment[0]);
  CHECK(crop.area == plan::augments::Interval{0.5, 1});
  CHECK(crop.aspect == plan::augments::RandomResizedCrop().aspect);
  CHECK(column_of(job, 0, 6).std.learn);
  CHECK(column_of(job, 0, 6).mean.values == std::vector<double>{1, 2});
}

TEST_CASE("the default of each key is that of the plan's struct", "[job]") {
  const plan::Job job = job_of(
      R"(
  d:
    a: {csv: a.csv}
    b: {csv: a.csv, type: text, length: 2}
    c: {csv: a.csv, type: image}
)",
      input("x", "[4]", "d.a") + input("b", "[4, 2]", "d.b") + input("c", "[4, 3, 1, 1]", "d.c"));
  const auto same = []<typename T>(const T& read, const T& made) {
    plan::for_each_field<T>([&](const auto& field) {
      using V = typename std::decay_t<decltype(field)>::Value;
      INFO(field.name);
      if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V> ||
                    std::is_same_v<V, std::string> || std::is_same_v<V, plan::Channels> ||
                    std::is_same_v<V, plan::Replacement>)
        if (field.name != "column" && field.name != "length" && field.name != "type")
          CHECK(read.*field.member == made.*field.member);
    });
  };
  same(*column_of(job, 0, 0).csv, plan::CsvFormat());
  same(*column_of(job, 0, 0).cell, plan::CellRules());
  same(*column_of(job, 0, 1).text, plan::TextFormat());
  same(*column_of(job, 0, 2).image, plan::ImageFormat());
  same(column_of(job, 0, 0), Column());
}

TEST_CASE("a chain of `like` ends, however long the file is", "[job]") {
  std::string chain = "  d:\n    x0: {npy: x.npy}\n";
  for (int i = 1; i < 200; ++i)
    chain +=
        "    x" + std::to_string(i) + ": {npy: x.npy, like: d.x" + std::to_string(i - 1) + "}\n";
  CHECK(messages_of(file_of(chain, input("x", "[4]", "d.x0"))).empty());  // each is merged once
  std::string turned = "  d:\n";
  for (int i = 1; i < 200; ++i)
    turned +=
        "    x" + std::to_string(i) + ": {npy: x.npy, like: d.x" + std::to_string(i + 1) + "}\n";
  turned += "    x200: {npy: x.npy}\n";
  CHECK_THAT(messages_of(file_of(turned, input("x", "[4]", "d.x1"))),
             Catch::Matchers::Contains("leads through too many others"));
}

TEST_CASE("unused parts are warned of, and datasets that others are like are used", "[job]") {
  const std::string warned =
      messages_of(file_of("  a: {options: {split: {p: 0.1, q: 0.1}}, x: {npy: x.npy}}\n"
                          "  b: {x: {npy: y.npy, like: c.x}}\n  c: {x: {npy: z.npy}}\n",
                          input("x", "[4]", "a/p.x") + input("y", "[4]", "b.x")));
  CHECK_THAT(warned, Catch::Matchers::Contains("unused part `a/q`"));
  CHECK_THAT(warned, !Catch::Matchers::Contains("unused dataset"));
}

TEST_CASE("a written default does not hide a key from `defaults`", "[job]") {
  CompileRequest request;
  request.writing = Writing::kFull;
  request.file = "job.yaml";
  const std::string text =
      file_of("  d: {defaults: {csv: a.csv, delimiter: \";\"}, x: {}}\n  e: {x: {csv: b.csv}}\n",
              input("x", "[4]", "d.x") + input("y", "[4]", "e.x"));
  const CompileResult full = compile_text(request, text);
  CHECK(plan_of(full.job_file).jobs[0].datasets[0].columns[0].csv->delimiter == ";");
  CHECK_THAT(full.job_file, Catch::Matchers::Contains("encoding: utf-8"));
  request.writing = Writing::kMinimal;
  const CompileResult minimal = compile_text(request, full.job_file);
  CHECK_THAT(minimal.job_file, !Catch::Matchers::Contains("encoding"));
  CHECK(plan_of(minimal.job_file).jobs[0].datasets[1].columns[0].csv->encoding ==
        plan::CsvFormat::Encoding::kUtf8);
}

TEST_CASE("the order of an epoch is read", "[job]") {
  const auto run_of = [](const std::string& run) {
    return plan_of(
               "flow: 1\ndata: {d: {x: {npy: x.npy}, w: {npy: w.npy}}}\njobs:\n  t:\n"
               "    type: train\n    inputs: {x: {shape: [4, 1], dtype: float32, from: d.x}}\n"
               "    graph: {y: {op: dense, in: x, units: 1}, loss: {op: mse, prediction: y, "
               "target: x}}\n    optimizer: {type: sgd, learning_rate: 1, minimize: loss}\n"
               "    run: {" +
               run + "}\n")
        .jobs[0];
  };
  CHECK(run_of("shuffle: true").run.shuffle);
  const plan::Job buffered = run_of("shuffle: {buffer: 5, files: true}");
  CHECK_FALSE(buffered.run.shuffle);
  CHECK(buffered.run.shuffle_buffer->buffer == 5);
  CHECK(buffered.run.shuffle_buffer->files);
  CHECK(run_of("sample: uniform").run.sampling->kind == plan::Sampling::Kind::kUniform);
  const plan::Job weighted = run_of("sample: {weights: d.w}, epoch_rows: 7, data_threads: 3");
  CHECK(weighted.run.sampling->kind == plan::Sampling::Kind::kWeights);
  CHECK(weighted.run.sampling->column == "w");
  CHECK(weighted.run.sampling->epoch_rows == 7);
  CHECK(weighted.run.data_threads == 3);
  CHECK(weighted.datasets[0].columns.size() == 2);
}
