// Gradients of matrix products; the expansion of einsum into transposes, sums and matrix products
// of two operands at a time; and products of vectors as products that broadcast.
#include <algorithm>
#include <map>
#include <string>

#include "compiler/grad/shared_parts.h"
#include "runtime/base/text.h"

namespace flow::grad {
namespace {

Shape leading_dimensions(const Shape& shape) { return shape.first(shape.rank() - 2); }

/// With dy the gradient of y = a b: da = dy b^T and db = a^T dy. A transposed operand has the
/// transposed gradient. da comes first, so a variable b is not read after db is computed.
std::vector<ir::ValueId> matmul_gradient(GradientContext& context) {
  const bool transpose_a = context.node.attributes.get<bool>("transpose_a");
  const bool transpose_b = context.node.attributes.get<bool>("transpose_b");
  const ir::ValueId a = context.operand(0), b = context.operand(1), dy = context.gradient();
  const auto product = [&](size_t i, ir::ValueId left, bool transpose_left, ir::ValueId right,
                           bool transpose_right) {
    const Shape y = context.value_of(dy).shape;
    const bool copied =
        leading_dimensions(context.value_of(context.operand(i)).shape) != leading_dimensions(y);
    const ir::ValueId made =
        context.add("matmul", i, {left, right},
                    {{"transpose_a", transpose_left}, {"transpose_b", transpose_right}},
                    copied ? "matmul" : "");
    return sum_to_operand(context, i, made);
  };
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0])
    gradients[0] =
        transpose_a ? product(0, b, transpose_b, dy, true) : product(0, dy, false, b, !transpose_b);
  if (context.wanted[1])
    gradients[1] =
        transpose_b ? product(1, dy, true, a, transpose_a) : product(1, a, !transpose_a, dy, false);
  return gradients;
}

using ir::ValueId;
using Integers = std::vector<int64_t>;

/// A tensor with a label for each axis. A label is a letter of the equation, or a digit for an axis
/// of `...`, whose last axis is 7.
struct Labeled {
  ValueId value;
  std::string labels;
};

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

/// Returns the labels of `from` that are among `others` or, if `wanted` is false, those that are
/// not.
std::string filtered(const std::string& from, const std::string& others, bool wanted) {
  std::string found;
  for (const char label : from)
    if (has(others, label) == wanted) found += label;
  return found;
}

class Einsum {
 public:
  explicit Einsum(const LayerContext& context) : context_(context) {}

  ValueId expand() {
    if (!read_equation()) return {};
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands_[i] = with_diagonals(std::move(operands_[i]));
      operands_[i] = summed(std::move(operands_[i]), later(i) + output_ + earlier(i));
    }
    Labeled product = operands_[0];
    for (size_t i = 1; i < operands_.size(); ++i)
      product = contracted(product, operands_[i], later(i) + output_);
    return add("reshape", {ordered(product, output_).value}, "", {{"shape", extents(output_)}});
  }

 private:
  bool bad(const std::string& message) {
    context_.site().bad_attribute("equation", Diagnosis::kBadAttribute, message);
    return false;
  }

  ValueId add(std::string_view op, std::vector<ValueId> operands, std::string_view part,
              ir::Attributes attributes) const {
    return context_.add(op, part, std::move(operands), std::move(attributes));
  }

  Integers extents(const std::string& labels) const {
    Integers sizes;
    for (const char label : labels) sizes.push_back(extents_.at(label));
    return sizes;
  }

  int64_t elements(const std::string& labels) const { return Shape(extents(labels)).elements(); }

  /// Return the labels of the operands after operand i, and of those before it.
  std::string later(size_t i) const {
    std::string labels;
    for (size_t k = i + 1; k < operands_.size(); ++k) labels += operands_[k].labels;
    return labels;
  }
  std::string earlier(size_t i) const {
    std::string labels;
    for (size_t k = 0; k < i; ++k) labels += operands_[k].labels;
    return labels;
  }

  bool read_equation() {
    std::string text = context_.attributes.get<std::string>("equation");
    std::erase(text, ' ');
    const size_t arrow = text.find("->");
    const std::vector<std::string> terms = split(text.substr(0, arrow), ',');
    if (terms.size() != context_.operands.size())
      return bad(fmt::format("the equation has {} for {}", counted(terms.size(), "term"),
                             counted(context_.operands.size(), "operand")));
    for (size_t i = 0; i < terms.size(); ++i)
      if (!read_term(terms[i], i)) return false;
    return arrow == std::string::npos ? imply_output() : read_output(text.substr(arrow + 2));
  }

  /// Returns a term with `rank` axes as labels, or nothing after an error. `...` covers the axes
  /// that have no letter.
  std::optional<std::string> labels_of(const std::string& term, size_t rank) {
    const size_t dots = term.find("...");
    std::string letters = term;
    if (dots != std::string::npos) letters.erase(dots, 3);
    if (!std::ranges::all_of(
            letters, [](char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); })) {
      bad(fmt::format("cannot parse the term `{}`; expected letters and at most one `...`", term));
      return {};
    }
    if (letters.size() > rank || (dots == std::string::npos && letters.size() < rank)) {
      bad(fmt::format("the term `{}` has {} for {} axes", term, counted(letters.size(), "letter"),
                      rank));
      return {};
    }
    std::string others;
    for (size_t k = rank - letters.size(); k > 0; --k)
      others += static_cast<char>('0' + ops::kMaxRank - static_cast<int>(k));
    if (dots != std::string::npos) letters.insert(dots, others);
    return letters;
  }

  bool read_term(const std::string& term, size_t i) {
    const Shape shape = context_.operand(i).shape;
    const auto labels = labels_of(term, static_cast<size_t>(shape.rank()));
    if (!labels) return false;
    Labeled operand{context_.operands[i], ""};
    Integers kept;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const char label = (*labels)[static_cast<size_t>(axis)];
      if (label <= '9' && shape[axis] == 1) continue;  // an axis of `...`, which broadcasts
      const auto [known, is_new] = extents_.emplace(label, shape[axis]);
      if (!is_new && known->second != shape[axis])
        return bad(fmt::format(
            "axis {} of {} has size {}; `{}` has size {} elsewhere", axis, shape.str(), shape[axis],
            label <= '9' ? std::string("...") : std::string(1, label), known->second));
      operand.labels += label;
      kept.push_back(shape[axis]);
    }
    const std::string others = filtered(*labels, "01234567", true);
    if (others.size() > dots_.size()) dots_ = others;
    if (Shape(kept) != shape)
      operand.value = add("reshape", {operand.value}, fmt::format("squeeze{}", i),
                          {{"shape", std::move(kept)}});
    operands_.push_back(std::move(operand));
    return true;
  }

  /// Sets the output to `...`, followed by the letters that occur once.
  bool imply_output() {
    std::string all, once;
    for (const Labeled& operand : operands_) all += operand.labels;
    for (const char label : all)
      if (label > '9' && std::ranges::count(all, label) == 1) once += label;
    std::ranges::sort(once);
    return read_output((dots_.empty() ? "" : "...") + once);
  }

  bool read_output(const std::string& term) {
    const size_t letters = term.size() - (term.find("...") == std::string::npos ? 0 : 3);
    const bool names_dots = letters < term.size();
    const auto labels = labels_of(term, letters + (names_dots ? dots_.size() : 0));
    if (!labels) return false;
    for (const char label : *labels) {
      if (std::ranges::count(*labels, label) > 1)
        return bad(fmt::format("the result names `{}` twice", label));
      if (label <= '9')
        extents_.emplace(label, 1);  // every operand has size 1 along this axis
      else if (!extents_.contains(label))
        return bad(fmt::format("no operand has an axis `{}`, which the result names", label));
    }
    output_ = *labels;
    return true;
  }

  /// Returns the operand with its axes in the order of `labels`, which may contain further labels.
  Labeled ordered(const Labeled& of, const std::string& labels) {
    const std::string present = filtered(labels, of.labels, true);
    if (of.labels == present) return of;
    Integers perm;
    for (const char label : present) perm.push_back(static_cast<int64_t>(of.labels.find(label)));
    return {add("transpose", {of.value}, "transpose", {{"perm", std::move(perm)}}), present};
  }

  /// Returns the operand without repeated labels. Of two axes with the same label, it takes the
  /// elements whose index is the same along both, which are n + 1 apart in the n * n elements of
  /// both axes.
  Labeled with_diagonals(Labeled operand) {
    for (size_t first = 0; first < operand.labels.size();) {
      const char label = operand.labels[first];
      const size_t second = operand.labels.find(label, first + 1);
      if (second == std::string::npos) {
        ++first;
        continue;
      }
      operand = diagonal(operand, first, second);
      first = 0;
    }
    return operand;
  }

  Labeled diagonal(const Labeled& operand, size_t first, size_t second) {
    const char label = operand.labels[first];
    const int64_t n = extents_.at(label);
    Integers perm;
    std::string others;
    for (size_t axis = 0; axis < operand.labels.size(); ++axis) {
      if (axis == first || axis == second) continue;
      perm.push_back(static_cast<int64_t>(axis));
      others += operand.labels[axis];
    }
    perm.push_back(static_cast<int64_t>(first));
    perm.push_back(static_cast<int64_t>(second));
    const ValueId last =
        add("transpose", {operand.value}, "diagonal/transpose", {{"perm", std::move(perm)}});
    Integers flat = extents(others);
    flat.push_back(n * n);
    const ValueId all = add("reshape", {last}, "diagonal/flat", {{"shape", std::move(flat)}});
    return {add("slice", {all}, "diagonal", {{"index", fmt::format("[..., ::{}]", n + 1)}}),
            others + label};
  }

  /// Sums over the axes whose labels are not in `needed`.
  Labeled summed(Labeled operand, const std::string& needed) {
    Integers axes;
    for (size_t axis = 0; axis < operand.labels.size(); ++axis)
      if (!has(needed, operand.labels[axis])) axes.push_back(static_cast<int64_t>(axis));
    if (axes.empty()) return operand;
    return {
        add("reduce_sum", {operand.value}, "sum", {{"axis", std::move(axes)}, {"keepdims", false}}),
        filtered(operand.labels, needed, true)};
  }

  /// One operand of a product as matrices of `rows` and `columns`, one for each index of `batch`.
  struct Matrices {
    ValueId value;
    bool transposed;
  };

  Matrices as_matrices(const Labeled& operand, const std::string& batch, const std::string& rows,
                       const std::string& columns) {
    const bool transposed = !rows.empty() && operand.labels == batch + columns + rows;
    const Labeled moved = transposed ? operand : ordered(operand, batch + rows + columns);
    Integers shape = extents(batch);
    shape.push_back(elements(transposed ? columns : rows));
    shape.push_back(elements(transposed ? rows : columns));
    return {add("reshape", {moved.value}, "matrices", {{"shape", std::move(shape)}}), transposed};
  }

  /// Returns the product of two operands, summed over labels that both have and that are not
  /// needed.
  Labeled contracted(const Labeled& a, const Labeled& b, const std::string& needed) {
    const std::string both = filtered(a.labels, b.labels, true);
    const std::string batch = filtered(both, needed, true), sums = filtered(both, needed, false);
    const std::string rows = filtered(a.labels, b.labels, false);
    const std::string columns = filtered(b.labels, a.labels, false);
    const std::string labels = batch + rows + columns;
    if (sums.empty()) return {multiplied(a, b, batch, rows, columns), labels};
    const Matrices left = as_matrices(a, batch, rows, sums);
    const Matrices right = as_matrices(b, batch, sums, columns);
    const ValueId product =
        add("matmul", {left.value, right.value}, "product",
            {{"transpose_a", left.transposed}, {"transpose_b", right.transposed}});
    return {add("reshape", {product}, "joined", {{"shape", extents(labels)}}), labels};
  }

  /// Computes an elementwise or outer product.
  ValueId multiplied(const Labeled& a, const Labeled& b, const std::string& batch,
                     const std::string& rows, const std::string& columns) {
    Integers left = extents(batch + rows), right = extents(batch);
    left.resize(left.size() + columns.size(), 1);
    right.resize(right.size() + rows.size(), 1);
    for (const int64_t extent : extents(columns)) right.push_back(extent);
    const ValueId x =
        add("reshape", {ordered(a, batch + rows).value}, "left", {{"shape", std::move(left)}});
    const ValueId y =
        add("reshape", {ordered(b, batch + columns).value}, "right", {{"shape", std::move(right)}});
    return add("multiply", {x, y}, "product", {});
  }

  const LayerContext& context_;
  std::vector<Labeled> operands_;
  std::map<char, int64_t> extents_;
  std::string dots_;  // the axes of the longest `...`
  std::string output_;
};

ValueId expand_einsum(LayerContext& context) { return Einsum(context).expand(); }

/// Returns true if both operands have vectors along their last axis, and if these vectors have
/// equally many elements when `equal` is set; otherwise reports an error.
bool are_vectors(const LayerContext& context, bool equal) {
  for (size_t i = 0; i < 2; ++i) {
    if (context.operand(i).shape.rank() > 0) continue;
    context.site().bad_operand(i, Diagnosis::kRankMismatch,
                               "a scalar has no axes; expected a vector or more dimensions");
    return false;
  }
  const Shape &a = context.operand(0).shape, &b = context.operand(1).shape;
  if (!equal || a[a.rank() - 1] == b[b.rank() - 1]) return true;
  context.site().bad_operand(1, Diagnosis::kShapeMismatch,
                             fmt::format("vectors of {} and {} elements; expected the same number",
                                         a[a.rank() - 1], b[b.rank() - 1]));
  return false;
}

ir::ValueId expand_dot(LayerContext& context) {
  if (!are_vectors(context, true)) return {};
  const ir::ValueId products = context.add("multiply", "products", context.operands);
  if (!products.valid()) return {};
  const int64_t last = context.graph()[products].shape.rank() - 1;
  return context.add("reduce_sum", "", {products},
                     {{"axis", std::vector<int64_t>{last}}, {"keepdims", false}});
}

/// Returns the operand with an additional axis of size 1, `from_end` axes before the end.
ir::ValueId with_axis(const LayerContext& context, size_t i, std::string_view part, int from_end) {
  std::vector<int64_t> extents = context.operand(i).shape.extents();
  extents.insert(extents.end() - from_end, 1);
  return context.reshape(part, context.operands[i], std::move(extents));
}

ir::ValueId expand_outer(LayerContext& context) {
  if (!are_vectors(context, false)) return {};
  const ir::ValueId column = with_axis(context, 0, "column", 0);
  const ir::ValueId row = with_axis(context, 1, "row", 1);
  return context.add("multiply", "", {column, row});
}

}  // namespace

std::vector<Rules> products() {
  return {{"matmul", matmul_gradient},
          {"einsum", nullptr, expand_einsum},
          {"dot", nullptr, expand_dot},
          {"outer", nullptr, expand_outer}};
}

}  // namespace flow::grad
