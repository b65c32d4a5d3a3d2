// Einsum, and the shape of what it makes.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Tensors = std::vector<Tensor>;

/// Axes of "..." by their place from its end, by which they broadcast: as letters, which
/// no equation has.
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
      throw Unsupported("an equation of other signs than letters");
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

/// A letter for each of `rank` axes. `others`: how many "..." stands for.
std::string letters_of(const std::string& term, int others) {
  const size_t dots = term.find("...");
  std::string letters = term.substr(0, dots);
  if (dots != std::string::npos) {
    for (int i = others; i > 0; --i) letters += static_cast<char>(kFirstOther + i - 1);
    letters += term.substr(dots + 3);
  }
  if (letters.find_first_of(".->,") != std::string::npos)
    throw Unsupported(fmt::format("the term {} of an equation", term));
  return letters;
}

/// How many axes "..." stands for in the term of a tensor.
int others_of(const std::string& term, const Tensor& operand) {
  const bool dots = term.find("...") != std::string::npos;
  const int others = operand.shape.rank() - static_cast<int>(term.size()) + (dots ? 3 : 0);
  if (others < 0 || (!dots && others > 0))
    throw Unsupported(fmt::format("the term {} for {}", term, operand.shape.str()));
  return others;
}

/// Axes of the result where the equation does not say: "...", then letters that occur once.
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
    throw Unsupported(
        fmt::format("{} terms for {} operands", equation.terms.size(), operands.size()));
  std::vector<std::string> terms;
  std::map<char, Size> extents;
  int most_others = 0;
  std::string rows;  // letters of the batch
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
    if (found == extents.end()) throw Unsupported("an axis of the result that no operand has");
    shape.push_back(found->second);
  }
  if (shape.size() > size_t{ops::kMaxRank}) throw Unsupported("too many dimensions");
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

constexpr ImportRule kEinsumImports[] = {{"Einsum", einsum_of_node}};

}  // namespace

std::span<const ImportRule> einsum_imports() { return kEinsumImports; }

}  // namespace flow::onnx
