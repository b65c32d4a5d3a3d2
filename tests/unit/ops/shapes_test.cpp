// The shape rules of the ops: what results from what, and what is said of what does not fit.
#include <catch2/catch.hpp>

#include "ops/core/spec.h"
#include "tests/support/graph_maker.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
using ir::kBatchReduced;
using ir::kNoBatch;
using ir::ValueId;

/// The message of a call that does not fit.
std::string refused(const std::function<void(GraphMaker&)>& call) {
  GraphMaker maker;
  call(maker);
  return maker.messages();
}

}  // namespace

TEST_CASE("A product has a's rows and b's columns, transposed or not", "[ops]") {
  GraphMaker maker;
  const ValueId a = maker.input("a", {3, 4}), b = maker.input("b", {4, 2}, DType::kFloat32, -1);
  const ValueId at = maker.input("at", {4, 3}), bt = maker.input("bt", {2, 4});
  CHECK(maker.graph[maker.add("matmul", "y", {a, b})].shape == Shape{3, 2});
  const ValueId both =
      maker.add("matmul", "z", {at, bt}, {{"transpose_a", true}, {"transpose_b", true}});
  CHECK(maker.graph[both].shape == Shape{3, 2});
  CHECK(maker.messages().empty());
}

TEST_CASE("Leading dimensions of a product broadcast", "[ops]") {
  GraphMaker maker;
  const ValueId a = maker.input("a", {2, 1, 3, 4}, DType::kFloat32, -1);
  const ValueId b = maker.input("b", {5, 4, 6}, DType::kFloat32, -1);
  CHECK(maker.graph[maker.add("matmul", "y", {a, b})].shape == Shape{2, 5, 3, 6});
}

TEST_CASE("A product keeps rows along a, and mixes those that it sums", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4}), dy = maker.input("dy", {8, 3});
  const ValueId w = maker.variable("w", {4, 3});
  CHECK(maker.graph[maker.add("matmul", "y", {x, w})].batch_axis == 0);
  CHECK(maker.graph[maker.add("matmul", "dw", {x, dy}, {{"transpose_a", true}})].batch_axis ==
        kBatchReduced);
  CHECK(maker.graph[maker.add("matmul", "s", {x, x}, {{"transpose_b", true}})].batch_axis ==
        kBatchReduced);
}

TEST_CASE("Rows that are summed, copied or slid over mix, also where extents agree", "[ops]") {
  GraphMaker maker;
  const auto rows = [&](std::string_view op, std::vector<ValueId> operands,
                        std::initializer_list<ir::Attributes::Entry> attributes = {}) {
    const std::string name = "v" + std::to_string(maker.graph.nodes.size());
    return maker.graph[maker.add(op, name, std::move(operands), attributes)].batch_axis;
  };
  const ValueId square = maker.input("square", {4, 4}), w = maker.variable("w", {4, 4});
  CHECK(rows("matmul", {square, w}, {{"transpose_a", true}}) == kBatchReduced);
  const ValueId one = maker.input("one", {1, 3, 4}), many = maker.variable("many", {5, 4, 2});
  CHECK(rows("matmul", {one, many}) == kBatchReduced);
  CHECK(rows("add", {maker.input("row", {1, 4}), w}) == kBatchReduced);
  const auto images = [&](const std::string& name, int along) {
    return maker.input(name, {4, 4, 4, 4}, DType::kFloat32, along);
  };
  const ValueId filter = maker.variable("filter", {4, 4, 1, 1});
  CHECK(rows("convolution", {images("by_channel", 1), filter}) == kBatchReduced);
  CHECK(rows("max_pool2d", {images("by_height", 2)}, {{"ksize", Integers{1}}}) == kBatchReduced);
  CHECK(rows("convolution_grad_weight", {images("x", 0), images("dy", 0)},
             {{"weight_shape", Integers{4, 4, 1, 1}}}) == kBatchReduced);
}

TEST_CASE("A loss mixes rows that lie along the classes, or elsewhere than the labels'", "[ops]") {
  GraphMaker maker;
  const auto rows = [&](std::string_view op, ValueId labels, ValueId logits) {
    const std::string name = "v" + std::to_string(maker.graph.nodes.size());
    return maker.graph[maker.add(op, name, {labels, logits})].batch_axis;
  };
  const ValueId by_class = maker.input("by_class", {4, 4}, DType::kFloat32, 1);
  const ValueId known = maker.input("known", {4}, DType::kInt32, kNoBatch);
  CHECK(rows("sparse_softmax_cross_entropy_with_logits", known, by_class) == kBatchReduced);
  const ValueId labels = maker.input("labels", {4, 4}, DType::kInt32, 0);
  const ValueId logits = maker.input("logits", {4, 4, 5}, DType::kFloat32, 1);
  CHECK(rows("sparse_softmax_cross_entropy_with_logits", labels, logits) == kBatchReduced);
  const ValueId shares = maker.input("shares", {4, 4, 5}, DType::kFloat32, 0);
  CHECK(rows("softmax_cross_entropy_with_logits", shares, logits) == kBatchReduced);
}

TEST_CASE("A product of what does not fit is refused with both shapes", "[ops]") {
  CHECK(refused([](GraphMaker& maker) {
          maker.add("matmul", "y", {maker.input("a", {3, 4}), maker.input("b", {5, 2})});
        }) ==
        "y: cannot multiply [3, 4] by [5, 2]: 4 columns against 5 rows\n"
        "  a is [3, 4]\n"
        "  b is [5, 2]\n"
        "  hint: match the columns of the first operand to the rows of the second\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.add("matmul", "y", {maker.input("a", {4}), maker.input("b", {4, 2})});
        }) ==
        "y: [4] has fewer than 2 dimensions; expected a matrix\n"
        "  a is [4]\n"
        "  hint: use `expand_dims` to make a vector a row or a column\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.add("matmul", "y", {maker.input("a", {2, 3, 4}), maker.input("b", {3, 4, 2})});
        }) ==
        "y: the leading dimensions of [2, 3, 4] and [3, 4, 2] do not broadcast\n"
        "  a is [2, 3, 4]\n"
        "  b is [3, 4, 2]\n"
        "  hint: align the leading dimensions at the right: sizes must be equal or 1\n");
}

TEST_CASE("Elementwise shapes broadcast from the last dimension", "[ops]") {
  GraphMaker maker;
  const ValueId a = maker.input("a", {8, 1, 4}), b = maker.variable("b", {3, 1});
  const ValueId y = maker.add("add", "y", {a, b});
  CHECK(maker.graph[y].shape == Shape{8, 3, 4});
  CHECK(maker.graph[y].batch_axis == 0);
  const ValueId c = maker.input("c", {4});
  CHECK(maker.graph[maker.add("add", "z", {y, c})].batch_axis == kBatchReduced);
  CHECK(refused([](GraphMaker& other) {
          other.add("add", "y", {other.input("a", {3, 4}), other.input("b", {3})});
        }) ==
        "y: [3, 4] and [3] do not broadcast\n"
        "  a is [3, 4]\n"
        "  b is [3]\n"
        "  hint: align the shapes at the right: sizes must be equal or 1\n");
}

TEST_CASE("Operands of two dtypes are refused, but integers of any dtype compare", "[ops]") {
  GraphMaker maker;
  const ValueId i = maker.input("i", {4}, DType::kInt32), l = maker.input("l", {4}, DType::kInt64);
  const ValueId f = maker.input("f", {4});
  CHECK(maker.graph[maker.add("equal", "same", {i, l})].dtype == DType::kBool);
  CHECK_FALSE(maker.add("add", "sum", {i, l}).valid());
  CHECK_FALSE(maker.add("equal", "never", {f, l}).valid());
  CHECK(maker.messages() ==
        "never: the operands are float32 and int64; expected one dtype\n"
        "  l is [4]\n"
        "  hint: convert with `{op: cast, dtype: float32}`\n"
        "sum: the operands are int32 and int64; expected one dtype\n"
        "  l is [4]\n"
        "  hint: convert with `{op: cast, dtype: int32}`\n");
}

TEST_CASE("Operands are of the job's precision", "[ops]") {
  GraphMaker maker;
  maker.add("relu", "y", {maker.input("x", {4}, DType::kFloat64)});
  maker.add("relu", "z", {maker.input("i", {4}, DType::kInt32)});
  CHECK(maker.messages() ==
        "y: `in` of `relu` is float64; expected float32\n"
        "  x is [4]\n"
        "  hint: convert with `{op: cast, dtype: float32}`\n"
        "z: `in` of `relu` is int32; expected float32\n"
        "  i is [4]\n"
        "  hint: convert with `{op: cast, dtype: float32}`\n");
}

TEST_CASE("A bias lies along its axis", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 3, 5}), bias = maker.variable("bias", {5});
  const ValueId y = maker.add("bias_add", "y", {x, bias}, {{"axis", int64_t{-1}}});
  CHECK(maker.graph[maker.graph[y].producer].attributes.get<int64_t>("axis") == 2);
  maker.add("bias_add", "z", {x, bias});
  maker.add("bias_add", "far", {x, bias}, {{"axis", int64_t{3}}});
  CHECK(maker.messages() ==
        "far: [2, 3, 5] has no axis 3; expected -3 to 2\n"
        "  x is [2, 3, 5]\n"
        "z: the bias is [5] for [2, 3, 5]; expected [3] for axis 1\n"
        "  x is [2, 3, 5]\n"
        "  bias is [5]\n"
        "  hint: write `axis: 2`\n");
}

TEST_CASE("Same padding gives one window for each stride, the odd pixel at the end or beginning",
          "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {1, 1, 7, 8});
  const auto pads = [&](const std::string& name, const std::string& padding) {
    const ValueId y =
        maker.add("max_pool2d", name, {x}, {{"ksize", Integers{2}}, {"padding", padding}});
    CHECK(maker.graph[y].shape == Shape{1, 1, 4, 4});
    return maker.graph[maker.graph[y].producer].attributes.get<Integers>("padding");
  };
  CHECK(pads("y", "same") == Integers{0, 1, 0, 0});
  CHECK(pads("z", "same_lower") == Integers{1, 0, 0, 0});
}

TEST_CASE("Pooling steps by its window, and holds offsets in bytes where they fit", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 3, 40, 40});
  const ValueId y = maker.add("max_pool2d", "y", {x}, {{"ksize", Integers{16}}});
  const ir::Node& node = maker.graph[maker.graph[y].producer];
  CHECK(node.attributes.get<Integers>("strides") == Integers{16, 16});
  CHECK(maker.graph[node.results[1]].name == "y.argmax");
  CHECK(maker.graph[node.results[1]].dtype == DType::kUInt8);
  const ValueId z = maker.add("max_pool2d", "z", {x}, {{"ksize", Integers{17, 16}}});
  CHECK(maker.graph[maker.graph[maker.graph[z].producer].results[1]].dtype == DType::kInt32);
}

TEST_CASE("A window that does not fit names the padded input and what would", "[ops]") {
  CHECK(
      refused([](GraphMaker& maker) {
        const ValueId x = maker.input("images", {64, 1, 6, 9});
        maker.layer("conv2d", "conv2", x, {{"filters", int64_t{50}}, {"kernel_size", Integers{7}}});
      }) ==
      "conv2: kernel 7 does not fit: the padded input is 6 high\n"
      "  images is [64, 1, 6, 9]\n"
      "  hint: reduce `kernel_size` to at most 6, or write `padding: same`\n");
  CHECK(refused([](GraphMaker& maker) {
          const ValueId x = maker.input("images", {64, 1, 9, 6});
          maker.layer("conv2d", "conv2", x,
                      {{"filters", int64_t{50}},
                       {"kernel_size", Integers{3}},
                       {"dilation_rate", Integers{4}},
                       {"padding", Integers{0, 0, 1, 0}}});
        }) ==
        "conv2: kernel 3 does not fit (with dilation 4 it spans 9): the padded input is 7 wide\n"
        "  images is [64, 1, 9, 6]\n"
        "  hint: reduce `kernel_size` to at most 2, or write `padding: same`\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.add("max_pool2d", "pool", {maker.input("x", {1, 1, 4, 4})},
                    {{"ksize", Integers{2}}, {"padding", Integers{0, 2, 0, 0}}});
        }) ==
        "pool: the padding is 2 for a window of 2; expected less than the window\n"
        "  x is [1, 1, 4, 4]\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.add("max_pool2d", "pool", {maker.input("x", {4, 4})}, {{"ksize", Integers{2}}});
        }) ==
        "pool: [4, 4] has 2 dimensions; expected 4: (N, C, H, W)\n"
        "  x is [4, 4]\n");
}

TEST_CASE("The largest sizes that a file can give overflow nothing", "[ops]") {
  static constexpr int64_t kMost = 2147483647;
  CHECK(refused([](GraphMaker& maker) {
          maker.add("max_pool2d", "pool", {maker.input("x", {1, 1, 4, 4})},
                    {{"ksize", Integers{kMost}}, {"padding", Integers(4, kMost - 1)}});
        }) ==
        "pool: a window of 2147483647 x 2147483647 has too many elements to count\n"
        "  x is [1, 1, 4, 4]\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.layer("conv2d", "conv", maker.input("x", {1, 1, 4, 4}),
                      {{"filters", kMost},
                       {"kernel_size", Integers{kMost}},
                       {"padding", Integers(4, kMost)}});
        }) ==
        "conv/weight is [2147483647, 1, 2147483647, 2147483647]; its size in bytes overflows\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.layer("dense", "dense", maker.input("x", {1, kMost}), {{"units", kMost}});
        }) == "dense/weight is [2147483647, 2147483647]; its size in bytes overflows\n");
}

TEST_CASE("Channels and filters fall into groups", "[ops]") {
  CHECK(refused([](GraphMaker& maker) {
          maker.layer(
              "conv2d", "conv", maker.input("x", {1, 4, 8, 8}),
              {{"filters", int64_t{5}}, {"kernel_size", Integers{3}}, {"groups", int64_t{2}}});
        }) ==
        "conv: 5 filters cannot be split evenly into 2 groups\n"
        "  x is [1, 4, 8, 8]\n");
}

TEST_CASE("One extent of a reshape may be left open", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 3, 4});
  const ValueId y = maker.add("reshape", "y", {x}, {{"shape", Integers{-1, 12}}});
  CHECK(maker.graph[y].shape == Shape{8, 12});
  CHECK(maker.graph[maker.graph[y].producer].attributes.get<Integers>("shape") == Integers{8, 12});
  maker.add("reshape", "a", {x}, {{"shape", Integers{-1, 7}}});
  maker.add("reshape", "b", {x}, {{"shape", Integers{-1, -1}}});
  maker.add("reshape", "c", {x}, {{"shape", Integers{0, 96}}});
  CHECK(maker.messages() ==
        "a: cannot reshape [8, 3, 4] with 96 elements to [-1, 7]\n"
        "  x is [8, 3, 4]\n"
        "b: [-1, -1] has more than one -1; expected at most one\n"
        "  x is [8, 3, 4]\n"
        "c: invalid shape [0, 96]; expected positive sizes, at most one of them -1\n"
        "  x is [8, 3, 4]\n");
}

TEST_CASE("A reshape keeps the row axis while it is cut at rows", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 3, 4});
  const auto rows = [&](ValueId of, Integers shape) {
    return maker
        .graph[maker.add("reshape", "r" + std::to_string(maker.graph.nodes.size()), {of},
                         {{"shape", std::move(shape)}})]
        .batch_axis;
  };
  CHECK(rows(x, {8, 12}) == 0);
  CHECK(rows(x, {24, 4}) == 0);
  CHECK(rows(x, {1, 8, 12}) == 1);
  CHECK(rows(x, {2, 4, 12}) == kBatchReduced);
  CHECK(rows(x, {12, 8}) == kBatchReduced);
  const ValueId tokens = maker.add("reshape", "tokens", {x}, {{"shape", Integers{24, 4}}});
  CHECK(rows(tokens, {8, 3, 4}) == 0);
  CHECK(rows(tokens, {12, 2, 4}) == kBatchReduced);
}

TEST_CASE("Reductions sort their axes and say which are wrong", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 3, 4});
  const ValueId all = maker.add("reduce_mean", "all", {x});
  CHECK(maker.graph[all].shape == Shape{});
  CHECK(maker.graph[all].batch_axis == kBatchReduced);
  const ValueId some = maker.add("reduce_sum", "some", {x}, {{"axis", Integers{-1, 1}}});
  const ir::Attributes& attributes = maker.graph[maker.graph[some].producer].attributes;
  CHECK(attributes.get<Integers>("axes") == Integers{1, 2});
  CHECK_FALSE(attributes.has("axis"));
  CHECK(maker.graph[some].batch_axis == 0);
  const ValueId kept =
      maker.add("reduce_sum", "kept", {x}, {{"axis", Integers{0}}, {"keepdims", true}});
  CHECK(maker.graph[kept].shape == Shape{1, 3, 4});
  maker.add("reduce_sum", "twice", {x}, {{"axis", Integers{1, -2}}});
  CHECK(maker.messages() ==
        "twice: duplicate axis 1\n"
        "  x is [8, 3, 4]\n");
}

TEST_CASE("argmax gives int64 without its axis", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 3, 4});
  const ValueId y = maker.add("argmax", "y", {x});
  CHECK(maker.graph[y].dtype == DType::kInt64);
  CHECK(maker.graph[y].shape == Shape{8, 3});
  CHECK(maker.graph[y].batch_axis == 0);
  CHECK(maker.graph[maker.add("argmax", "z", {x}, {{"axis", int64_t{0}}})].batch_axis ==
        kBatchReduced);
  maker.add("argmax", "none", {maker.input("s", {}, DType::kFloat32, kNoBatch)});
  CHECK(maker.messages() ==
        "none: [] has no axis -1; a scalar has no axes\n"
        "  s is []\n");
}

TEST_CASE("A loss has one label for each row of logits", "[ops]") {
  GraphMaker maker;
  const ValueId labels = maker.input("labels", {8}, DType::kInt32);
  const ValueId logits = maker.input("logits", {8, 10});
  static constexpr auto kOp = "sparse_softmax_cross_entropy_with_logits";
  const ValueId loss = maker.add(kOp, "loss", {labels, logits});
  CHECK(maker.graph[loss].shape == Shape{8});
  CHECK(maker.graph[loss].batch_axis == 0);
  CHECK(maker.graph.find("loss.prob").valid());
  maker.add(kOp, "swapped", {logits, labels});
  maker.add(kOp, "wide", {maker.input("wide_labels", {8, 1}, DType::kInt32), logits});
  CHECK(
      maker.messages() ==
      "swapped: `labels` is float32 and `logits` is int32: the operands are swapped\n"
      "  logits is [8, 10]\n"
      "  hint: exchange the operands\n"
      "wide: the labels are [8, 1] for logits [8, 10]; expected [8]: one label per row of logits\n"
      "  wide_labels is [8, 1]\n"
      "  logits is [8, 10]\n"
      "  hint: remove the last axis of the labels with `{op: squeeze, axis: -1}`\n");
}

TEST_CASE("Wrong numbers of operands, missing and impossible attributes are refused", "[ops]") {
  CHECK(refused([](GraphMaker& maker) { maker.add("relu", "y", {}); }) ==
        "y: `relu` takes 1 operand; found 0\n");
  CHECK(refused([](GraphMaker& maker) { maker.add("reshape", "y", {maker.input("x", {4})}); }) ==
        "y: `reshape` needs `shape`\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.layer("dropout", "y", maker.input("x", {4}), {{"rate", 1.0}});
        }) == "y: `rate` is 1; expected below 1\n");
  CHECK(refused([](GraphMaker& maker) {
          maker.layer("dropout", "y", maker.input("x", {4}), {{"rate", int64_t{0}}});
        }) == "y: `rate` of `dropout` has the wrong type\n");
}

TEST_CASE("A tensor of more than eight dimensions is refused", "[ops]") {
  CHECK(refused([](GraphMaker& maker) {
          maker.add("reshape", "y", {maker.input("x", {4})},
                    {{"shape", Integers{4, 1, 1, 1, 1, 1, 1, 1, 1}}});
        }) == "y: the result has 9 dimensions; at most 8 are supported\n");
}

TEST_CASE("What reads a value that an error left out is not reported again", "[ops]") {
  GraphMaker maker;
  const ValueId bad = maker.add("relu", "bad", {maker.input("i", {4}, DType::kInt32)});
  maker.add("relu", "after", {bad});
  CHECK(maker.layer("dense", "dense", bad, {{"units", int64_t{3}}}) == ValueId());
  CHECK(maker.diags.error_count() == 1);
}

}  // namespace flow::test
