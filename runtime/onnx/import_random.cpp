// Nodes that draw random numbers. A seed makes no difference: those of flow follow from the job's.
#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// The dtype of what is drawn. Floats become that of the job.
DType drawn_dtype(NodeImport& node, DType otherwise) {
  node.ignore("seed");
  DType dtype = otherwise;
  if (const auto* found = node.find("dtype", pb::AttributeProto::INT))
    dtype = read_dtype(static_cast<int>(found->i()));
  return is_float(dtype) ? node.compute_dtype() : dtype;
}

/// Numbers of a shape, or of the shape of the operand.
Tensors draw(NodeImport& node) {
  if (!is_float(drawn_dtype(node, DType::kFloat32))) throw Unsupported("integers (dtype)");
  ops::Attributes attributes;
  const bool normal = node.op() == "random_normal";
  attributes.set(normal ? "mean" : "minimum", node.number(normal ? "mean" : "low", 0));
  attributes.set(normal ? "stddev" : "maximum", node.number(normal ? "scale" : "high", 1));
  const auto shape = node.integers("shape");
  if (!shape) return {node.call(node.op(), {node.operand(0)}, attributes)};
  attributes.set("shape", *shape);
  return {node.call(node.op(), {}, attributes)};
}

Tensors bernoulli(NodeImport& node) {
  const DType dtype = drawn_dtype(node, node.in(0).dtype);
  return {node.call("bernoulli", {node.operand(0)}, {{"dtype", dtype}})};
}

Tensors multinomial(NodeImport& node) {
  const DType dtype = drawn_dtype(node, DType::kInt32);
  const Tensor x = node.operand(0);
  if (x.shape.rank() != 2) throw Unsupported("operand " + x.shape.str());
  const int64_t samples = node.integer("sample_size", 1);
  Tensor drawn = node.layer("multinomial", {x}, {{"samples", samples}}, Shape{x.shape[0], samples},
                            x.batch_axis == 0 ? 0 : ops::kNoBatch);
  drawn.dtype = DType::kInt64;
  if (!x.sizes.empty()) drawn.sizes = {x.size(0), fixed(samples)};
  if (dtype == DType::kInt64) return {drawn};
  return {node.call("cast", {drawn}, {{"dtype", dtype}})};
}

constexpr ImportRule kRandomImports[] = {
    {"RandomNormal", draw, "random_normal"},
    {"RandomNormalLike", draw, "random_normal"},
    {"RandomUniform", draw, "random_uniform"},
    {"RandomUniformLike", draw, "random_uniform"},
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial},
};

}  // namespace

std::span<const ImportRule> random_imports() { return kRandomImports; }

}  // namespace flow::onnx
