// Products, convolutions and attention as their formulas say. Compiled with FLOW_CUDA_ON_CPU.
#include "tests/support/cuda/naive_libraries.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "tests/support/cuda/naive_loops.h"

namespace flow::cuda {
namespace {

using test::Access;

/// y = relu(y + bias), each step rounded to what a T is computed in.
template <typename T>
Wide<T> finish(double sum, Epilogue epilogue, const T* bias, int64_t channel) {
  auto value = static_cast<Wide<T>>(sum);
  if (epilogue.bias) value += convert<Wide<T>>(bias[channel]);
  return epilogue.relu && value <= 0 ? Wide<T>{0} : value;
}

/// out [batches, m, n] = op(a) op(b).
struct Product {
  int64_t batches, m, n, k;
  bool transpose_a, transpose_b;
  Epilogue epilogue;
  Aside aside;

  int64_t index_a(int64_t i, int64_t l) const { return transpose_a ? l * m + i : i * k + l; }
  int64_t index_b(int64_t l, int64_t j) const { return transpose_b ? j * k + l : l * n + j; }
};

/// Bit `column` of row `row` of a mask of rows of `columns` bits.
struct MaskBit {
  std::byte& byte;
  std::byte bit;
  MaskBit(std::byte* mask, int64_t columns, int64_t row, int64_t column)
      : byte(mask[row * mask_shape({1, columns})[1] + column / 8]), bit{1} {
    bit <<= column % 8;
  }
  void store(bool set) { byte = set ? byte | bit : byte & ~bit; }
  bool read() const { return (byte & bit) != std::byte{0}; }
};

template <typename T>
void naive_matmul(Product p, const T* a, const T* b, const Wide<T>* bias, Wide<T>* out,
                  std::byte* aside) {
  note(a, p.batches * p.m * p.k, Access::kRead);
  note(b, p.batches * p.k * p.n, Access::kRead);
  note(bias, p.epilogue.bias ? p.n : 0, Access::kRead);
  note(out, p.batches * p.m * p.n, Access::kWrite);
  if (p.aside == Aside::kStoreMask || p.aside == Aside::kReadMask)
    note(aside, mask_shape({p.m, p.n}).elements(),
         p.aside == Aside::kStoreMask ? Access::kWrite : Access::kRead);
  for (int64_t batch = 0; batch < p.batches; ++batch, a += p.m * p.k, b += p.k * p.n) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l)
          sum += convert<double>(a[p.index_a(i, l)]) * convert<double>(b[p.index_b(l, j)]);
        const auto value = finish(sum, p.epilogue, bias, j);
        if (p.aside == Aside::kStoreMask) MaskBit(aside, p.n, i, j).store(!(value <= 0));
        const bool dropped = p.aside == Aside::kReadMask && !MaskBit(aside, p.n, i, j).read();
        *out++ = dropped ? 0 : value;
      }
    }
  }
}

/// The sums of op(a) (or op(b)) over what a product sums over.
template <typename T>
void naive_sums(Product p, const T* operand, Wide<T>* sums) {
  const bool of_a = p.aside == Aside::kSumsOfA;
  note(operand, (of_a ? p.m : p.n) * p.k, Access::kRead);
  note(sums, of_a ? p.m : p.n, Access::kWrite);
  for (int64_t i = 0; i < (of_a ? p.m : p.n); ++i) {
    double sum = 0;
    for (int64_t l = 0; l < p.k; ++l)
      sum += convert<double>(operand[of_a ? p.index_a(i, l) : p.index_b(l, i)]);
    sums[i] = static_cast<Wide<T>>(sum);
  }
}

Product product_of(const MatmulSpec& spec) {
  const int rank = spec.out.rank();
  FLOW_CHECK(rank >= 2 && spec.a.rank() == rank && spec.b.rank() == rank);
  for (int axis = 0; axis < rank - 2; ++axis)
    FLOW_CHECK(spec.a[axis] == spec.out[axis] && spec.b[axis] == spec.out[axis]);
  const int row = rank - 2, column = rank - 1;
  const Product p{spec.out.elements(0, row),
                  spec.out[row],
                  spec.out[column],
                  spec.a[spec.transpose_a ? row : column],
                  spec.transpose_a,
                  spec.transpose_b,
                  spec.epilogue,
                  spec.aside};
  FLOW_CHECK(spec.aside == Aside::kNothing || rank == 2);
  FLOW_CHECK(spec.aside != Aside::kStoreMask || spec.epilogue.relu);
  FLOW_CHECK(spec.a[p.transpose_a ? column : row] == p.m);
  FLOW_CHECK(spec.b[p.transpose_b ? column : row] == p.k);
  FLOW_CHECK(spec.b[p.transpose_b ? row : column] == p.n);
  return p;
}

/// One axis of the image.
struct ImageAxis {
  int64_t input, kernel, output, stride, before, dilation;
};

/// Where the elements of [images, channels, rows, columns] lie: at the sums of these offsets.
struct Strides {
  int64_t image, channel, row, column;

  Strides(bool channels_last, int64_t channels, int64_t rows, int64_t columns)
      : image(channels * rows * columns),
        channel(channels_last ? 1 : rows * columns),
        row(columns * (channels_last ? channels : 1)),
        column(channels_last ? channels : 1) {}
};

/// x [images, groups*channels, H, W], w [groups*filters, channels, kh, kw], y like x.
struct Convolution {
  int64_t images, groups, channels, filters;
  ImageAxis rows, columns;
  Epilogue epilogue;
  bool channels_last;
};

/// Elements that meet: y[y] += w[w] * x[x].
struct Meeting {
  int64_t x, w, y;
};

/// Calls f(i, k, at) for the elements i of the result and k of the kernel that meet the input.
template <typename F>
void for_each_meeting(const ImageAxis& axis, F f) {
  for (int64_t i = 0; i < axis.output; ++i) {
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t at = i * axis.stride + k * axis.dilation - axis.before;
      if (at >= 0 && at < axis.input) f(i, k, at);
    }
  }
}

/// Calls f for every product of the convolution.
template <typename F>
void for_each_product(const Convolution& c, F f) {
  const Strides x(c.channels_last, c.groups * c.channels, c.rows.input, c.columns.input);
  const Strides w(c.channels_last, c.channels, c.rows.kernel, c.columns.kernel);
  const Strides y(c.channels_last, c.groups * c.filters, c.rows.output, c.columns.output);
  for (int64_t image = 0; image < c.images; ++image) {
    for (int64_t o = 0; o < c.groups * c.filters; ++o) {
      for (int64_t channel = 0; channel < c.channels; ++channel) {
        const int64_t in = o / c.filters * c.channels + channel;
        const Meeting first{image * x.image + in * x.channel, o * w.image + channel * w.channel,
                            image * y.image + o * y.channel};
        for_each_meeting(c.rows, [&](int64_t i, int64_t k, int64_t row) {
          for_each_meeting(c.columns, [&](int64_t j, int64_t l, int64_t column) {
            f(Meeting{first.x + row * x.row + column * x.column, first.w + k * w.row + l * w.column,
                      first.y + i * y.row + j * y.column});
          });
        });
      }
    }
  }
}

int64_t x_elements(const Convolution& c) {
  return c.images * c.groups * c.channels * c.rows.input * c.columns.input;
}
int64_t w_elements(const Convolution& c) {
  return c.groups * c.filters * c.channels * c.rows.kernel * c.columns.kernel;
}
int64_t y_elements(const Convolution& c) {
  return c.images * c.groups * c.filters * c.rows.output * c.columns.output;
}

template <typename T>
void naive_convolution(Convolution c, const T* x, const T* w, const T* bias, T* y) {
  note(x, x_elements(c), Access::kRead);
  note(w, w_elements(c), Access::kRead);
  note(bias, c.epilogue.bias ? c.groups * c.filters : 0, Access::kRead);
  note(y, y_elements(c), Access::kWrite);
  std::vector<double> sums(static_cast<size_t>(y_elements(c)));
  for_each_product(c, [&](Meeting m) {
    sums[static_cast<size_t>(m.y)] += convert<double>(x[m.x]) * convert<double>(w[m.w]);
  });
  const int64_t inner = c.channels_last ? 1 : c.rows.output * c.columns.output;
  for (size_t i = 0; i < sums.size(); ++i)
    y[i] = convert<T>(finish(sums[i], c.epilogue, bias,
                             static_cast<int64_t>(i) / inner % (c.groups * c.filters)));
}

template <typename T>
void naive_convolution_grad_data(Convolution c, const T* dy, const T* w, T* dx) {
  note(dy, y_elements(c), Access::kRead);
  note(w, w_elements(c), Access::kRead);
  note(dx, x_elements(c), Access::kWrite);
  std::vector<double> sums(static_cast<size_t>(x_elements(c)));
  for_each_product(c, [&](Meeting m) {
    sums[static_cast<size_t>(m.x)] += convert<double>(dy[m.y]) * convert<double>(w[m.w]);
  });
  std::ranges::transform(sums, dx, convert<T, double>);
}

template <typename T>
void naive_convolution_grad_weight(Convolution c, const T* x, const T* dy, T* dw) {
  note(x, x_elements(c), Access::kRead);
  note(dy, y_elements(c), Access::kRead);
  note(dw, w_elements(c), Access::kWrite);
  std::vector<double> sums(static_cast<size_t>(w_elements(c)));
  for_each_product(c, [&](Meeting m) {
    sums[static_cast<size_t>(m.w)] += convert<double>(x[m.x]) * convert<double>(dy[m.y]);
  });
  std::ranges::transform(sums, dw, convert<T, double>);
}

ImageAxis axis_of(const ConvolutionSpec& spec, int axis) {
  const size_t i = static_cast<size_t>(axis);
  const ImageAxis result{spec.x[axis + 2],   spec.w[axis + 2], spec.y[axis + 2],
                         spec.strides.at(i), spec.pads.at(i),  spec.dilation.at(i)};
  const int64_t padded = result.input + result.before + spec.pads.at(i + 2);
  const int64_t reach = (result.kernel - 1) * result.dilation + 1;
  FLOW_CHECK(padded >= reach && result.output == (padded - reach) / result.stride + 1);
  return result;
}

Convolution convolution_of(const ConvolutionSpec& spec) {
  FLOW_CHECK(spec.x.rank() == 4 && spec.w.rank() == 4 && spec.y.rank() == 4);
  const Convolution c{spec.x[0],        spec.groups,      spec.w[1],     spec.w[0] / spec.groups,
                      axis_of(spec, 0), axis_of(spec, 1), spec.epilogue, spec.channels_last};
  FLOW_CHECK(spec.x[1] == c.groups * c.channels && spec.w[0] == c.groups * c.filters);
  FLOW_CHECK(spec.y[0] == spec.x[0] && spec.y[1] == spec.w[0]);
  return c;
}

struct Attended {
  int64_t heads, group, queries, keys, depth, value_depth;  // `group` heads share a key
  double scale;
  bool causal, log_sums;
  int64_t window;                    // 0: none
  int64_t diagonal;                  // query i of a causal call sees keys up to i + diagonal
  int64_t batch_heads;               // of queries
  int64_t bias_batches, bias_heads;  // of its own; 0: no bias
  bool lengths;

  int64_t batches() const { return heads / batch_heads; }
  int64_t key_rows() const { return heads / group * keys; }
  /// Where the keys of a row of queries begin.
  int64_t key_base(int64_t row) const { return row / queries / group * keys; }
  /// The rows of keys that a row of queries sees: from the first one on, before the end.
  int64_t first_key(int64_t row) const {
    const int64_t last = row % queries + diagonal;
    return key_base(row) + (window > 0 ? std::max<int64_t>(last - window + 1, 0) : 0);
  }
  int64_t end_key(int64_t row, const int32_t* key_lengths) const {
    const int64_t end = hidden_key(row, key_lengths);
    return causal ? std::min(key_base(row) + row % queries + diagonal + 1, end) : end;
  }
  /// The first row of keys that lengths hide.
  int64_t hidden_key(int64_t row, const int32_t* key_lengths) const {
    return key_base(row) + (lengths ? key_lengths[row / queries / batch_heads] : keys);
  }
  /// Where the bias of a row of queries begins.
  int64_t bias_row(int64_t row) const {
    const int64_t head = row / queries;
    const int64_t own =
        head / batch_heads % bias_batches * bias_heads + head % batch_heads % bias_heads;
    return (own * queries + row % queries) * keys;
  }
};

/// What scores are made of besides queries and keys.
template <typename T>
struct ScoreParts {
  const T* bias;
  const int32_t *query_lengths, *key_lengths;

  void note_reads(const Attended& at) const {
    note(bias, at.bias_batches * at.bias_heads * at.queries * at.keys, Access::kRead);
    if (!at.lengths) return;
    note(query_lengths, at.batches(), Access::kRead);
    note(key_lengths, at.batches(), Access::kRead);
    for (int64_t i = 0; i < at.batches(); ++i)
      FLOW_CHECK(query_lengths[i] == at.queries && key_lengths[i] >= 1 &&
                 key_lengths[i] <= at.keys);
  }
};

template <typename T>
double dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += convert<double>(a[i]) * convert<double>(b[i]);
  return sum;
}

/// The score of row `row` of queries and row `key` of keys.
template <typename T>
double score(const Attended& at, const ScoreParts<T>& parts, const T* queries, const T* keys,
             int64_t row, int64_t key) {
  const double scaled = at.scale * dot(queries + row * at.depth, keys + key * at.depth, at.depth);
  if (!parts.bias) return scaled;
  return scaled + convert<double>(parts.bias[at.bias_row(row) + key - at.key_base(row)]);
}

/// The weights of the keys that a query sees, in place of their scores. Returns the logarithm of
/// the sum that normalizes them.
double weigh(std::vector<double>& weights) {
  const double largest = *std::ranges::max_element(weights);
  double sum = 0;  // NaN where all scores are -inf
  for (const double score : weights) sum += std::exp(score - largest);
  const double log_sum = largest + std::log(sum);
  for (double& score : weights) score = std::exp(score - log_sum);
  return log_sum;
}

template <typename T>
void naive_attention(Attended at, const T* query, const T* key, const T* value, ScoreParts<T> parts,
                     T* out, float* log_sums) {
  note(query, at.heads * at.queries * at.depth, Access::kRead);
  note(key, at.key_rows() * at.depth, Access::kRead);
  note(value, at.key_rows() * at.value_depth, Access::kRead);
  note(out, at.heads * at.queries * at.value_depth, Access::kWrite);
  note(log_sums, at.heads * at.queries, Access::kWrite);
  parts.note_reads(at);
  for (int64_t row = 0; row < at.heads * at.queries; ++row) {
    const int64_t first_key = at.first_key(row);
    std::vector<double> weights(
        static_cast<size_t>(at.end_key(row, parts.key_lengths) - first_key));
    for (size_t j = 0; j < weights.size(); ++j)
      weights[j] = score(at, parts, query, key, row, first_key + static_cast<int64_t>(j));
    const double log_sum = weigh(weights);
    if (log_sums) log_sums[row] = static_cast<float>(log_sum);
    for (int64_t column = 0; column < at.value_depth; ++column) {
      double sum = 0;
      for (size_t j = 0; j < weights.size(); ++j)
        sum +=
            weights[j] *
            convert<double>(value[(first_key + static_cast<int64_t>(j)) * at.value_depth + column]);
      out[row * at.value_depth + column] = convert<T>(static_cast<float>(sum));
    }
  }
}

/// What the gradients are computed from, and they.
template <typename T>
struct AttentionGradients {
  const T *query, *key, *value, *out, *dy;
  ScoreParts<T> parts;
  const float* log_sums;
  T *dquery, *dkey, *dvalue;
};

/// Sums of rows, rounded when all are added.
class RowSums {
 public:
  RowSums(int64_t rows, int64_t columns)
      : columns_(columns), sums_(static_cast<size_t>(rows * columns)) {}
  template <typename T>
  void add(int64_t row, double factor, const T* addend) {
    for (int64_t i = 0; i < columns_; ++i)
      sums_[static_cast<size_t>(row * columns_ + i)] += factor * convert<double>(addend[i]);
  }
  template <typename T>
  void store(T* to) const {
    note(to, static_cast<int64_t>(sums_.size()), Access::kWrite);
    std::ranges::transform(sums_, to,
                           [](double sum) { return convert<T>(static_cast<float>(sum)); });
  }

 private:
  int64_t columns_;
  std::vector<double> sums_;
};

template <typename T>
void naive_attention_grad(Attended at, AttentionGradients<T> g) {
  const int64_t queries = at.heads * at.queries, keys = at.key_rows();
  note(g.query, queries * at.depth, Access::kRead);
  note(g.key, keys * at.depth, Access::kRead);
  note(g.value, keys * at.value_depth, Access::kRead);
  note(g.out, queries * at.value_depth, Access::kRead);
  note(g.dy, queries * at.value_depth, Access::kRead);
  note(g.log_sums, queries, Access::kRead);
  g.parts.note_reads(at);
  RowSums dquery(queries, at.depth), dkey(keys, at.depth), dvalue(keys, at.value_depth);
  for (int64_t row = 0; row < queries; ++row) {
    const T *query = g.query + row * at.depth, *dy = g.dy + row * at.value_depth;
    const double expected = dot(dy, g.out + row * at.value_depth, at.value_depth);
    // These gradients are undefined: tests see who reads them.
    for (int64_t j = at.hidden_key(row, g.parts.key_lengths); j < at.key_base(row) + at.keys; ++j) {
      dkey.add(j, NAN, query);
      dvalue.add(j, NAN, dy);
    }
    for (int64_t j = at.first_key(row); j < at.end_key(row, g.parts.key_lengths); ++j) {
      const T *key = g.key + j * at.depth, *value = g.value + j * at.value_depth;
      const double weight = std::exp(score(at, g.parts, g.query, g.key, row, j) -
                                     static_cast<double>(g.log_sums[row]));
      const double slope = at.scale * weight * (dot(dy, value, at.value_depth) - expected);
      dquery.add(row, slope, key);
      dkey.add(j, slope, query);
      dvalue.add(j, weight, dy);
    }
  }
  dquery.store(g.dquery);
  dkey.store(g.dkey);
  dvalue.store(g.dvalue);
}

Attended attended(const AttentionSpec& spec) {
  FLOW_CHECK(spec.query.rank() == 4 && spec.key.rank() == 4 && spec.value.rank() == 4);
  FLOW_CHECK(spec.key[3] == spec.query[3] && spec.value[2] == spec.key[2]);
  for (const Shape& other : {spec.key, spec.value})
    FLOW_CHECK(other[0] == spec.query[0] && other[1] == spec.key[1]);
  FLOW_CHECK(spec.query[1] % spec.key[1] == 0);
  if (spec.bias) {
    const Shape& bias = *spec.bias;
    FLOW_CHECK(bias.rank() == 4 && bias[2] == spec.query[2] && bias[3] == spec.key[2]);
    for (int axis = 0; axis < 2; ++axis)
      FLOW_CHECK(bias[axis] == 1 || bias[axis] == spec.query[axis]);
  }
  return {spec.query[0] * spec.query[1],
          spec.query[1] / spec.key[1],
          spec.query[2],
          spec.key[2],
          spec.key[3],
          spec.value[3],
          spec.scale,
          spec.causal,
          spec.log_sums,
          spec.window,
          spec.bottom_right ? spec.key[2] - spec.query[2] : 0,
          spec.query[1],
          spec.bias ? (*spec.bias)[0] : 0,
          spec.bias ? (*spec.bias)[1] : 0,
          spec.lengths};
}

/// Calls make(T) for the type of the operands.
template <typename F>
Expected<LibraryKernel> for_dtype(DType dtype, F make) {
  if (is_float(dtype)) return visit_any_float(dtype, make);
  return RunError("the plain loops know floats alone");
}

}  // namespace

Expected<LibraryKernel> NaiveLibraries::find(const MatmulSpec& spec) {
  return for_dtype(spec.dtype, [&]<typename T>(T) {
    const auto run = [&driver = driver_, p = product_of(spec)](const LibraryBuffers& b,
                                                               Stream stream) {
      FLOW_CHECK((p.aside != Aside::kNothing) == (b.aside != nullptr));
      launch(driver, stream, "naive_matmul", kOneThread, &naive_matmul<T>, p, as<T>(b.first),
             as<T>(b.second), as<Wide<T>>(b.bias), as<Wide<T>>(b.out), b.aside);
      if (p.aside == Aside::kSumsOfA || p.aside == Aside::kSumsOfB)
        launch(driver, stream, "naive_sums", kOneThread, &naive_sums<T>, p,
               as<T>(p.aside == Aside::kSumsOfA ? b.first : b.second), as<Wide<T>>(b.aside));
      return std::nullopt;
    };
    return LibraryKernel{run, 0, "plain loops"};
  });
}

Expected<LibraryKernel> NaiveLibraries::find(const ConvolutionSpec& spec) {
  using Pass = ConvolutionSpec::Pass;
  return for_dtype(spec.dtype, [&]<typename T>(T) {
    const auto run = [&driver = driver_, c = convolution_of(spec), pass = spec.pass](
                         const LibraryBuffers& b, Stream stream) {
      const T *first = as<T>(b.first), *second = as<T>(b.second);
      T* out = as<T>(b.out);
      if (pass == Pass::kForward)
        launch(driver, stream, "naive_convolution", kOneThread, &naive_convolution<T>, c, first,
               second, as<T>(b.bias), out);
      else if (pass == Pass::kGradData)
        launch(driver, stream, "naive_convolution_grad_data", kOneThread,
               &naive_convolution_grad_data<T>, c, first, second, out);
      else
        launch(driver, stream, "naive_convolution_grad_weight", kOneThread,
               &naive_convolution_grad_weight<T>, c, first, second, out);
      return std::nullopt;
    };
    return LibraryKernel{run, 0, "plain loops"};
  });
}

namespace {

template <typename T>
AttentionKernel attention_by(Driver& driver, const AttentionSpec& spec) {
  const auto run = [&driver, at = attended(spec), pass = spec.pass](
                       const AttentionBuffers& b, Stream stream) -> std::optional<RunError> {
    FLOW_CHECK((at.bias_batches > 0) == (b.bias != nullptr));
    FLOW_CHECK(at.lengths == (b.query_lengths != nullptr && b.key_lengths != nullptr));
    const ScoreParts<T> parts{as<T>(b.bias), as<int32_t>(b.query_lengths),
                              as<int32_t>(b.key_lengths)};
    if (pass == AttentionSpec::Pass::kForward) {
      FLOW_CHECK(at.log_sums == (b.log_sums != nullptr));
      launch(driver, stream, "naive_attention", kOneThread, &naive_attention<T>, at, as<T>(b.query),
             as<T>(b.key), as<T>(b.value), parts, as<T>(b.out), as<float>(b.log_sums));
      return std::nullopt;
    }
    const AttentionGradients<T> gradients{
        as<T>(b.query), as<T>(b.key),          as<T>(b.value),  as<T>(b.out),  as<T>(b.dy),
        parts,          as<float>(b.log_sums), as<T>(b.dquery), as<T>(b.dkey), as<T>(b.dvalue)};
    launch(driver, stream, "naive_attention_grad", kOneThread, &naive_attention_grad<T>, at,
           gradients);
    return std::nullopt;
  };
  return {run, 0, "plain loops"};
}

}  // namespace

/// 16 bits alone, as cuDNN; nor has that a window where queries are more than keys.
Expected<AttentionKernel> NaiveLibraries::find(const AttentionSpec& spec) {
  if (spec.window > 0 && spec.query[2] > spec.key[2])
    return RunError("the plain loops have no window for more queries than keys");
  if (spec.dtype == DType::kFloat16) return attention_by<Float16>(driver_, spec);
  if (spec.dtype == DType::kBFloat16) return attention_by<BFloat16>(driver_, spec);
  return RunError("the plain loops attend in 16 bits alone");
}

}  // namespace flow::cuda
