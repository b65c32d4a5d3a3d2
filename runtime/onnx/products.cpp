// Products of matrices, and products that an equation describes.
#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// Gemm transposes its matrices itself. Other products need a node for that.
void matmul(StepExport& step) {
  const bool a = step.attribute<bool>("transpose_a"), b = step.attribute<bool>("transpose_b");
  if (step.in(0).shape.rank() == 2 && step.in(1).shape.rank() == 2)
    return step.result("Gemm", step.names(), {{"transA", a}, {"transB", b}});
  const auto side = [&](const Value& value, bool turned) {
    return turned ? step.transposed(value.name, value.shape.rank()) : value.name;
  };
  for (const size_t i : {0, 1}) step.fix_batch_of_constant(i, 2);
  const Strings sides = {side(step.in(0), a), side(step.in(1), b)};
  if (step.operands() == 2) return step.result("MatMul", sides);
  step.result("Add", {step.node("MatMul", sides), step.in(2).name});
}

void bias_add(StepExport& step) {
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  step.result("Add", {step.in(0).name, step.along(step.in(1).name, axis, step.in(0).shape.rank())});
}

/// The first of the letters for the axes of "...". They are numbered from the last axis, because
/// broadcasting aligns last axes. No equation contains these letters.
constexpr char kFirstOther = '\1';

/// An equation without spaces, and its terms.
struct Equation {
  std::string text;
  std::vector<std::string> terms;
  std::string result;
  bool has_result = false;
};

Equation equation_of(const std::string& given) {
  Equation equation;
  for (const unsigned char c : given) {
    if (!std::isalpha(c) &&
        std::string_view(" .,->").find(static_cast<char>(c)) == std::string::npos)
      refuse("an equation of other signs than letters");
    if (c != ' ') equation.text += static_cast<char>(c);
  }
  const size_t arrow = equation.text.find("->");
  std::string terms = equation.text.substr(0, arrow);
  equation.has_result = arrow != std::string::npos;
  if (equation.has_result) equation.result = equation.text.substr(arrow + 2);
  for (size_t comma = terms.find(','); comma != std::string::npos; comma = terms.find(',')) {
    equation.terms.push_back(terms.substr(0, comma));
    terms.erase(0, comma + 1);
  }
  equation.terms.push_back(terms);
  return equation;
}

/// Returns a letter for each axis of a term. `others` is the number of axes of "...".
std::string letters_of(const std::string& term, int others) {
  const size_t dots = term.find("...");
  std::string letters = term.substr(0, dots);
  if (dots != std::string::npos) {
    for (int i = others; i > 0; --i) letters += static_cast<char>(kFirstOther + i - 1);
    letters += term.substr(dots + 3);
  }
  if (letters.find_first_of(".->,") != std::string::npos)
    refuse("the term {} of an equation", term);
  return letters;
}

/// Returns the number of axes of "..." in the term of a tensor.
int others_of(const std::string& term, const Tensor& operand) {
  const bool dots = term.find("...") != std::string::npos;
  const int others = operand.shape.rank() - static_cast<int>(term.size()) + (dots ? 3 : 0);
  if (others < 0 || (!dots && others > 0)) refuse("the term {} for {}", term, operand.shape.str());
  return others;
}

/// Returns the axes of the result if the equation does not state them: "...", then the letters that
/// occur once.
std::string usual_result(const std::vector<std::string>& terms, int others) {
  std::map<char, int> count;
  for (const std::string& letters : terms)
    for (const char letter : letters) ++count[letter];
  std::string result = letters_of("...", others);
  for (const auto& [letter, times] : count)
    if (letter >= 'A' && times == 1) result += letter;
  return result;
}

}  // namespace

Tensor einsum(NodeImport& node, const std::vector<Tensor>& operands, const std::string& given) {
  const Equation equation = equation_of(given);
  if (equation.terms.size() != operands.size())
    refuse("{} terms for {} operands", equation.terms.size(), operands.size());
  std::vector<std::string> terms;
  std::map<char, Size> extents;
  int most_others = 0;
  std::string rows;  // letters of batch axes
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string& term = equation.terms[i];
    const Tensor& x = operands[i];
    const int others = others_of(term, x);
    most_others = std::max(most_others, others);
    terms.push_back(letters_of(term, others));
    for (int axis = 0; axis < x.shape.rank(); ++axis) {
      Size& extent = extents[terms.back()[static_cast<size_t>(axis)]];
      extent = extent.value == 0 ? x.size(axis) : node.broadcast(extent, x.size(axis));
    }
    if (x.batch_axis >= 0) rows += terms.back()[static_cast<size_t>(x.batch_axis)];
    if (x.batch_axis == ops::kBatchReduced) rows += ' ';
  }
  const std::string result = equation.has_result ? letters_of(equation.result, most_others)
                                                 : usual_result(terms, most_others);
  Sizes shape;
  for (const char letter : result) {
    const auto found = extents.find(letter);
    if (found == extents.end()) refuse("an axis of the result that no operand has");
    shape.push_back(found->second);
  }
  if (shape.size() > size_t{ops::kMaxRank}) refuse("too many dimensions");
  int batch_axis = rows.empty() ? ops::kNoBatch : ops::kBatchReduced;
  if (!rows.empty() && rows.find_first_not_of(rows[0]) == std::string::npos)
    if (const size_t at = result.find(rows[0]); at != std::string::npos)
      batch_axis = static_cast<int>(at);
  Tensor made = node.layer("einsum", operands, {{"equation", equation.text}},
                           Shape(values_of(shape)), batch_axis);
  made.sizes = shape;
  return made;
}

namespace {

Tensors einsum_of_node(NodeImport& node) {
  Tensors operands;
  for (int i = 0; i < node.inputs(); ++i) operands.push_back(node.operand(i));
  return {einsum(node, operands, node.text("equation", ""))};
}

/// Returns true if operand i is a matrix that is known before a run.
bool is_weight(NodeImport& node, int i) {
  const Tensor& tensor = node.in(i);
  return tensor.value && tensor.shape.rank() == 2 && flow::is_float(tensor.dtype) &&
         tensor.shape.elements() > 0;
}

/// Returns x W^T + b. `turned` is true if W has one row for each output.
Tensor dense(NodeImport& node, const Tensor& x, bool turned, bool bias) {
  std::map<std::string, Array> weights;
  weights.emplace("weight", turned ? node.value(1) : transposed_matrix(node.value(1)));
  const Shape& weight = weights.at("weight").shape();
  if (x.shape[x.shape.rank() - 1] != weight[1])
    refuse("cannot multiply {} by {}", x.shape.str(), node.in(1).shape.str());
  Shape shape = x.shape;
  shape[shape.rank() - 1] = weight[0];
  if (bias) weights.emplace("bias", node.value(2));
  const int last = x.shape.rank() - 1;
  return node.layer("dense", {x}, {{"units", weight[0]}, {"use_bias", bias}}, std::move(shape),
                    x.batch_axis == last ? ops::kBatchReduced : x.batch_axis, std::move(weights),
                    {1, 2});
}

Tensor scaled(NodeImport& node, const Tensor& x, double factor) {
  return factor == 1 ? x : node.call("multiply", x, factor);
}

Tensors gemm(NodeImport& node) {
  node.ignore("broadcast");
  const double alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  const bool a = node.integer("transA", 0) != 0, b = node.integer("transB", 0) != 0;
  const Tensor x = node.operand(0);
  if (x.shape.rank() != 2 || node.in(1).shape.rank() != 2)
    refuse("operands {} and {}", x.shape.str(), node.in(1).shape.str());
  const int64_t units = node.in(1).shape[b ? 0 : 1];
  const bool bias = node.has(2) && node.in(2).value && node.in(2).shape == Shape{units};
  if (!a && alpha == 1 && beta == 1 && is_weight(node, 1) && (bias || !node.has(2)))
    return {dense(node, x, b, bias)};
  const Tensor product = scaled(
      node, node.call("matmul", {x, node.operand(1)}, {{"transpose_a", a}, {"transpose_b", b}}),
      alpha);
  if (!node.has(2)) return {product};
  return {node.call("add", {product, scaled(node, node.operand(2), beta)})};
}

/// A product with a vector is an einsum, whose result does not have the axis of the vector.
Tensors matmul(NodeImport& node) {
  const Shape &a = node.in(0).shape, &b = node.in(1).shape;
  if (a.rank() == 0 || b.rank() == 0) refuse("cannot multiply {} by {}", a.str(), b.str());
  if (a.rank() == 1 || b.rank() == 1) {
    if (a[a.rank() - 1] != b[std::max(0, b.rank() - 2)])
      refuse("cannot multiply {} by {}", a.str(), b.str());
    const char* equation = b.rank() > 1 ? "i,...ij->...j" : a.rank() > 1 ? "...i,i->..." : "i,i->";
    return {einsum(node, {node.operand(0), node.operand(1)}, equation)};
  }
  if (!node.in(0).value && is_weight(node, 1)) return {dense(node, node.operand(0), false, false)};
  return {node.call("matmul", {node.operand(0), node.operand(1)},
                    {{"transpose_a", false}, {"transpose_b", false}})};
}

constexpr Rule kProductRules[] = {
    {"matmul", "MatMul", matmul, matmul},
    {"", "Gemm", nullptr, gemm},
    {"", "Einsum", nullptr, einsum_of_node},
    {"bias_add", "", bias_add},
};

}  // namespace

std::span<const Rule> product_rules() { return kProductRules; }

}  // namespace flow::onnx
