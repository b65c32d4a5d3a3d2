// Ops that move elements, pick them or put them together: shapes, and where their rows are.
#include <catch2/catch.hpp>

#include "ops/core/index_text.h"
#include "ops/core/spec.h"
#include "tests/support/graph_maker.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
using ir::kBatchReduced;
using ir::ValueId;

/// x [8, 3, 4] with rows on axis 0, and what becomes of its shape and its rows.
struct Rows {
  GraphMaker maker;
  ValueId x = maker.input("x", {8, 3, 4});
  ValueId made;

  int of(std::string_view op, std::vector<ValueId> operands,
         std::initializer_list<ir::Attributes::Entry> attributes) {
    made = maker.add(op, "v" + std::to_string(maker.graph.nodes.size()), std::move(operands),
                     attributes);
    ir::verify(maker.graph);
    return maker.graph[made].batch_axis;
  }
  int of(std::string_view op, std::initializer_list<ir::Attributes::Entry> attributes) {
    return of(op, {x}, attributes);
  }
  int sliced(const std::string& index) { return of("slice", {{"index", index}}); }
  Shape shape() const { return maker.graph[made].shape; }
};

/// The shape that an index takes of [4, 5, 6], or the complaint.
std::string taken(std::string_view index) {
  const auto items = ops::parse_index(index);
  if (!items.value) return items.complaint;
  const auto selection = ops::select(*items.value, {4, 5, 6});
  return selection.value ? selection.value->shape.str() : selection.complaint;
}

}  // namespace

TEST_CASE("An index takes what NumPy takes", "[ops]") {
  CHECK(taken("[]") == "[4, 5, 6]");
  CHECK(taken("[1]") == "[5, 6]");
  CHECK(taken("[-4, :, -1]") == "[5]");
  CHECK(taken("[0, 0, 0]") == "[]");
  CHECK(taken("[...]") == "[4, 5, 6]");
  CHECK(taken("[..., 1:-1]") == "[4, 5, 4]");
  CHECK(taken("[None, ..., None]") == "[1, 4, 5, 6, 1]");
  CHECK(taken("[ 1 : 3 , None, ::2 ]") == "[2, 1, 3, 6]");
  CHECK(taken("[::-1, 4:0:-2, 100:-100:-4]") == "[4, 2, 2]");
  CHECK(taken("[-100:100, 3:, :99999999999999999999]") == "[4, 2, 6]");
  CHECK(taken("[0, 0, 0, ...]") == "[]");
  CHECK(taken("[::9223372036854775807, ::-9223372036854775808]") == "[1, 1, 6]");
}

TEST_CASE("An index tells where each element lies", "[ops]") {
  const auto selection = ops::select(*ops::parse_index("[::-1, 2, 5:0:-2]").value, {4, 5, 6});
  REQUIRE(selection.value);
  CHECK(selection.value->starts == Integers{3, 2, 5});
  CHECK(selection.value->steps == Integers{-1, 1, -2});
  CHECK(selection.value->counts == Integers{4, 1, 3});
  CHECK(selection.value->shape == Shape{4, 3});
}

TEST_CASE("An index that takes nothing, or what is not there, is refused", "[ops]") {
  CHECK(taken("[4]") == "4 is out of range for axis 0 of [4, 5, 6]");
  CHECK(taken("[:, -6]") == "-6 is out of range for axis 1 of [4, 5, 6]");
  CHECK(taken("[:, 3:3]") == "the range is empty for axis 1 of [4, 5, 6]");
  CHECK(taken("[:, 1:3:-1]") == "the range is empty for axis 1 of [4, 5, 6]");
  CHECK(taken("[0, 0, 0, 0]") == "4 items for [4, 5, 6], which has 3 axes");
  CHECK(taken("[::0]") == "the step is 0; expected a nonzero integer");
  CHECK(taken("[..., ...]") == "duplicate `...`");
  CHECK(taken("[1.5]") == "cannot read `1.5`; expected an integer, a range, `...` or `None`");
  CHECK(taken("[1,]") == "cannot read ``; expected an integer, a range, `...` or `None`");
  CHECK(taken("[a:b]") == "cannot read `a:b`; expected an integer, a range, `...` or `None`");
  CHECK(taken("1, 2") == "expected brackets around the index");
  CHECK(taken("[") == "expected brackets around the index");
}

TEST_CASE("A transpose moves the row axis", "[ops]") {
  Rows rows;
  CHECK(rows.of("transpose", {{"perm", Integers{1, -1, 0}}}) == 2);
  CHECK(rows.shape() == Shape{3, 4, 8});
  CHECK(rows.of("transpose", {}) == 2);
  CHECK(rows.shape() == Shape{4, 3, 8});
}

TEST_CASE("Joining mixes rows along their axis alone", "[ops]") {
  Rows rows;
  const ValueId w = rows.maker.variable("w", {8, 3, 4});
  const ValueId turned = rows.maker.input("turned", {8, 3, 4}, DType::kFloat32, 1);
  CHECK(rows.of("concat", {rows.x, rows.x}, {{"axis", int64_t{-1}}}) == 0);
  CHECK(rows.shape() == Shape{8, 3, 8});
  CHECK(rows.of("concat", {rows.x, rows.x}, {{"axis", int64_t{0}}}) == kBatchReduced);
  CHECK(rows.of("concat", {rows.x}, {{"axis", int64_t{0}}}) == 0);
  CHECK(rows.of("concat", {w, rows.x}, {{"axis", int64_t{1}}}) == 0);
  CHECK(rows.of("concat", {turned, rows.x}, {{"axis", int64_t{2}}}) == kBatchReduced);
  CHECK(rows.of("concat", {w, w}, {{"axis", int64_t{0}}}) == ir::kNoBatch);
  CHECK(rows.of("stack", {rows.x, rows.x}, {}) == 1);
  CHECK(rows.shape() == Shape{2, 8, 3, 4});
  CHECK(rows.of("stack", {rows.x, w, rows.x}, {{"axis", int64_t{-1}}}) == 0);
  CHECK(rows.shape() == Shape{8, 3, 4, 3});
  CHECK(rows.of("split", {{"axis", int64_t{2}}, {"parts", int64_t{2}}}) == 0);
  CHECK(rows.of("split", {{"axis", int64_t{0}}, {"parts", Integers{5, 3}}}) == kBatchReduced);
  CHECK(rows.maker.graph[rows.maker.graph.find("v9.out1")].shape == Shape{3, 3, 4});
}

TEST_CASE("A slice keeps rows where it takes all of them in their order", "[ops]") {
  Rows rows;
  CHECK(rows.sliced("[:, 0]") == 0);
  CHECK(rows.sliced("[None, :, None, 1:]") == 1);
  CHECK(rows.sliced("[0:8, ::-1]") == 0);
  CHECK(rows.sliced("[::-1]") == kBatchReduced);
  CHECK(rows.sliced("[1:]") == kBatchReduced);
  CHECK(rows.sliced("[0]") == kBatchReduced);
}

TEST_CASE("Padding and repeating mix rows along their axis alone", "[ops]") {
  Rows rows;
  CHECK(rows.of("pad", {{"paddings", Integers{0, 0, 1, 2, 0, 0}}}) == 0);
  CHECK(rows.shape() == Shape{8, 6, 4});
  CHECK(rows.of("pad", {{"paddings", Integers{0, 1, 0, 0, 0, 0}}}) == kBatchReduced);
  CHECK(rows.of("tile", {{"multiples", Integers{1, 2, 3}}}) == 0);
  CHECK(rows.shape() == Shape{8, 6, 12});
  CHECK(rows.of("tile", {{"multiples", Integers{2, 1, 1}}}) == kBatchReduced);
}

TEST_CASE("What is picked has the rows of the indices, or those of the other axes", "[ops]") {
  Rows rows;
  const ValueId table = rows.maker.variable("table", {10, 5});
  const ValueId words = rows.maker.input("words", {8, 6}, DType::kInt32);
  const ValueId some = rows.maker.input("some", {2, 7}, DType::kInt32, -1);
  CHECK(rows.of("gather", {table, words}, {}) == 0);
  CHECK(rows.shape() == Shape{8, 6, 5});
  CHECK(rows.of("gather", {table, words}, {{"axis", int64_t{1}}}) == 1);
  CHECK(rows.of("gather", {rows.x, some}, {{"axis", int64_t{1}}}) == 0);
  CHECK(rows.shape() == Shape{8, 2, 7, 4});
  CHECK(rows.of("gather", {rows.x, some}, {}) == kBatchReduced);
  CHECK(rows.of("gather", {rows.x, words}, {{"axis", int64_t{1}}}) == kBatchReduced);
  CHECK(rows.of("one_hot", {words}, {{"depth", int64_t{9}}}) == 0);
  CHECK(rows.shape() == Shape{8, 6, 9});
  CHECK(rows.of("top_k", {{"k", int64_t{2}}}) == 0);
  CHECK(rows.of("top_k", {{"k", int64_t{2}}, {"axis", int64_t{0}}}) == kBatchReduced);
  CHECK(rows.of("tril", {}) == 0);
}

TEST_CASE("Rows are followed along other axes than the first", "[ops]") {
  Rows rows;
  const ValueId turned = rows.maker.input("turned", {3, 8, 4}, DType::kFloat32, 1);
  CHECK(rows.of("reduce_sum", {turned}, {{"axis", Integers{0}}, {"keepdims", true}}) == 1);
  CHECK(rows.of("reduce_sum", {turned}, {{"axis", Integers{0}}}) == 0);
  const ValueId some = rows.maker.input("some", {5}, DType::kInt32, -1);
  const ValueId dy = rows.maker.input("dy", {5, 8}, DType::kFloat32, 1);
  CHECK(rows.of("gather_grad", {some, dy}, {{"axis", int64_t{0}}, {"extent", int64_t{9}}}) == 1);
  const ValueId part = rows.maker.input("part", {4, 3}, DType::kFloat32, 0);
  CHECK(rows.of("slice_grad", {part},
                {{"starts", Integers{1, 0}},
                 {"steps", Integers{1, 1}},
                 {"counts", Integers{4, 3}},
                 {"input_shape", Integers{8, 3}}}) == kBatchReduced);
}

TEST_CASE("A step over a single element is 1, whatever was asked for", "[ops]") {
  const auto selection = ops::select(*ops::parse_index("[::9, ::-9]").value, {4, 5});
  REQUIRE(selection.value);
  CHECK(selection.value->steps == Integers{1, 1});
}

TEST_CASE("A split has as many ports as parts", "[ops]") {
  Rows rows;
  rows.of("split", {{"axis", int64_t{1}}, {"parts", int64_t{3}}});
  const ir::Node& node = rows.maker.graph.nodes.back();
  REQUIRE(node.results.size() == 3);
  CHECK(rows.maker.graph[node.results[0]].name == "v0");
  CHECK(rows.maker.graph[node.results[2]].name == "v0.out2");
  CHECK(node.op->result_name(0) == "out0");
}

}  // namespace flow::test
