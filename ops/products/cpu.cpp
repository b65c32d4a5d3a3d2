// The kernel of matmul, out[..., M, N] = op(a)[..., M, K] op(b)[..., K, N], as products of tiles.
// Tiles depend only on shapes, and each tile is one single-threaded product by oneDNN, or by this
// project's code for float64, so results do not depend on the number of threads. Except in float64,
// the ops that follow the product (bias, relu, the SGD update) run on each tile while it is in the
// cache. If there are few tiles and K is long, K is divided too, and the partial sums are added in
// order.
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/core/cpu_epilogue.h"
#include "ops/core/spec.h"
#include "ops/optimizer/updates.h"
#include "ops/products/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/double_products.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/low_precision_products.h"
#include "runtime/cpu/loops/onednn_status.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {
namespace {

/// w += a * g. The product is rounded before the sum, as in an update that is not fused with a
/// product.
FLOW_VECTORIZED void update(const float* gradient, float a, float* w, int64_t n) {
  for (int64_t i = 0; i < n; ++i) w[i] += a * gradient[i];
}

/// The tiles into which M, N and K are divided.
struct Tiling {
  int64_t m = 0, n = 0, k = 0;               // the extents of one tile
  int64_t rows = 1, columns = 1, depth = 1;  // the numbers of tiles
};

/// Returns tiles of at most 128 rows whose width is a multiple of the product kernel's 48. A tile
/// takes at least about 4 us, and there are at least 16 tiles if there is enough work for them.
Tiling choose_tiling(int64_t batches, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kRows = 128, kWidth = 48, kWidest = 192, kTiles = 16;
  constexpr double kTileFlops = 4e5;
  Tiling t;
  t.rows = std::max<int64_t>(1, ceil_div(m, kRows));
  t.m = std::max<int64_t>(1, round_up(ceil_div(m, t.rows), 8));
  t.m = std::min(t.m, std::max<int64_t>(1, m));
  t.rows = std::max<int64_t>(1, ceil_div(m, t.m));
  const double column_flops =
      2.0 * static_cast<double>(t.m) * static_cast<double>(std::max<int64_t>(1, k));
  const int64_t enough = round_up(
      std::max<int64_t>(1, std::min(n, static_cast<int64_t>(kTileFlops / column_flops))), kWidth);
  const int64_t shared = n * t.rows * batches / kTiles / kWidth * kWidth;
  t.n = std::clamp(shared, enough, std::max(enough, kWidest));
  t.n = std::min(t.n, std::max<int64_t>(1, n));
  t.columns = std::max<int64_t>(1, ceil_div(n, t.n));
  t.k = k;
  constexpr int64_t kLong = 2048, kShortest = 1024;
  const int64_t tiles = batches * t.rows * t.columns;
  if (k >= kLong && tiles < kTiles / 2 &&
      column_flops * static_cast<double>(t.n) > 2 * kTileFlops) {
    const int64_t parts = std::min(ceil_div(k, kShortest), ceil_div(kTiles, tiles));
    t.k = round_up(ceil_div(k, parts), 16);
    t.depth = ceil_div(k, t.k);
  }
  return t;
}

/// The factors of the gradient and of the learning rate in an update that uses the product, and the
/// update's L2 penalty.
struct SgdScales {
  double gradient, rate, l2;
};

/// A product of T, which is float or double. Sums of 16-bit floats are float too.
template <typename T>
class Product {
 public:
  Product(const Request& request, const Epilogue& epilogue, std::optional<SgdScales> sgd)
      : epilogue_(epilogue),
        sgd_(sgd),
        low_precision_(is_low_precision(request.inputs[0].dtype)),
        threads_(request.threads) {
    const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape;
    const Shape& out = request.outputs[0].shape;
    transpose_a_ = request.step.attributes.get<bool>("transpose_a");
    transpose_b_ = request.step.attributes.get<bool>("transpose_b");
    m_ = out[out.rank() - 2];
    n_ = out[out.rank() - 1];
    k_ = a[a.rank() - (transpose_a_ ? 2 : 1)];
    if (b.rank() == 2 && !transpose_a_) {  // one tall product
      m_ = out.elements(0, out.rank() - 1);
      starts_ = {{0, 0, 0}};
    } else {
      const int rank = out.rank();
      starts_ = starts_of(padded(a, rank), padded(b, rank), out, rank - 2);
    }
    tiling_ = choose_tiling(std::max<int64_t>(1, batches()), m_, n_, k_);
  }

  /// Prepares products of 16-bit floats. Returns false if oneDNN has none.
  bool prepare_low_precision() {
    const auto sizes = [](int64_t tile, int64_t all) {
      return std::array{std::min(tile, all), all % std::max<int64_t>(1, tile)};
    };
    auto products = std::make_shared<LowPrecisionProducts>(
        threads_, transpose_a_, transpose_b_,
        LowPrecisionProducts::Strides{row_of_a(), row_of_b(), tiling_.n});
    for (const int64_t m : sizes(tiling_.m, m_))
      for (const int64_t n : sizes(tiling_.n, n_))
        for (const int64_t k : sizes(tiling_.k, k_))
          if (m > 0 && n > 0 && k > 0 && !products->add(m, n, k)) return false;
    low_precision_products_ = std::move(products);
    return true;
  }

  /// Returns true if no buffer is needed because tiles span all columns: the rows of the product
  /// and of the output then have the same stride.
  bool direct() const {
    return tiling_.columns == 1 && tiling_.depth == 1 && !sgd_ && !epilogue_.low_precision;
  }

  size_t workspace() const {
    return static_cast<size_t>(tile_elements() + scratch() * threads_) * sizeof(T);
  }

  void launch(const Buffers& buffers, const CallState& call) const {
    Operands operands;
    operands.a = buffers.inputs[0];
    operands.b = buffers.inputs[1];
    operands.out = buffers.outputs[0];
    operands.workspace = reinterpret_cast<T*>(buffers.workspace);
    if (epilogue_.bias)
      operands.bias = reinterpret_cast<const float*>(buffers.epilogue_operands[0][0]);
    if (sgd_)
      operands.rate = static_cast<float>(-call.at_rate(sgd_->rate).learning_rate *
                                         (sgd_->l2 == 0 ? sgd_->gradient : 1));
    if (m_ == 0 || n_ == 0 || batches() == 0) return;
    if (tiling_.depth > 1) return launch_deep(operands);
    parallel_for(threads_, tiles(), [&](int64_t index, int worker) {
      const Tile tile = tile_at(index);
      T* product = direct() ? reinterpret_cast<T*>(operands.out) + tile.out
                            : operands.workspace + worker * tiling_.m * tiling_.n;
      multiply(operands, tile, 0, k_, worker, product);
      finish(operands, tile, 0, tile.m, product);
    });
  }

 private:
  struct Operands {
    const std::byte *a = nullptr, *b = nullptr;
    std::byte* out = nullptr;
    const float* bias = nullptr;
    T* workspace = nullptr;  // tiles that are not computed in place, then workers' scratch
    float rate = 0;
  };
  struct Tile {
    int64_t a, b, out;  // the offset of the tile, in elements
    int64_t column;
    int64_t m, n;
  };

  int64_t batches() const { return static_cast<int64_t>(starts_.size()); }
  int64_t tiles() const { return batches() * tiling_.rows * tiling_.columns; }

  /// Returns the number of elements of the tiles in the workspace.
  int64_t tile_elements() const {
    const int64_t buffers = direct()            ? 0
                            : tiling_.depth > 1 ? tiles() * tiling_.depth
                                                : std::min<int64_t>(threads_, tiles());
    return buffers * tiling_.m * tiling_.n;
  }

  /// Returns the number of elements that a worker's product needs.
  static int64_t scratch() { return std::is_same_v<T, double> ? kDoubleProductScratch : 0; }

  Tile tile_at(int64_t index) const {
    const int64_t column = index % tiling_.columns * tiling_.n;
    const int64_t row = index / tiling_.columns % tiling_.rows * tiling_.m;
    const int64_t batch = index / tiling_.columns / tiling_.rows;
    const ProductStart& start = starts_[static_cast<size_t>(batch)];
    return {start.a + (transpose_a_ ? row : row * k_),
            start.b + (transpose_b_ ? column * k_ : column),
            (batch * m_ + row) * n_ + column,
            column,
            std::min(tiling_.m, m_ - row),
            std::min(tiling_.n, n_ - column)};
  }

  /// Computes product[tile.m, tile.n], whose rows are tiling_.n apart, from K in [first, first +
  /// depth).
  void multiply(const Operands& operands, const Tile& tile, int64_t first, int64_t depth,
                int worker, T* product) const {
    if (depth == 0) {
      for (int64_t row = 0; row < tile.m; ++row)
        std::fill_n(product + row * tiling_.n, tile.n, T{0});
      return;
    }
    const int64_t a = tile.a + (transpose_a_ ? first * m_ : first);
    const int64_t b = tile.b + (transpose_b_ ? first : first * n_);
    if constexpr (std::is_same_v<T, double>)
      multiply_doubles(tile.m, tile.n, depth, matrix(operands.a, a, row_of_a(), transpose_a_),
                       matrix(operands.b, b, row_of_b(), transpose_b_), product, tiling_.n, false,
                       operands.workspace + tile_elements() + worker * scratch());
    else if (low_precision_)
      low_precision_products_->run(worker, tile.m, tile.n, depth,
                                   reinterpret_cast<const uint16_t*>(operands.a) + a,
                                   reinterpret_cast<const uint16_t*>(operands.b) + b, product);
    else
      must_succeed([&] {
        return dnnl_sgemm(transpose_a_ ? 'T' : 'N', transpose_b_ ? 'T' : 'N', tile.m, tile.n, depth,
                          1.0f, reinterpret_cast<const float*>(operands.a) + a, row_of_a(),
                          reinterpret_cast<const float*>(operands.b) + b, row_of_b(), 0.0f, product,
                          tiling_.n);
      });
  }

  static DoubleMatrix matrix(const std::byte* operand, int64_t first, int64_t row, bool transpose) {
    const auto* data = reinterpret_cast<const double*>(operand) + first;
    return transpose ? DoubleMatrix{data, 1, row} : DoubleMatrix{data, row, 1};
  }

  /// The distances between the stored rows of a and of b.
  int64_t row_of_a() const { return transpose_a_ ? m_ : k_; }
  int64_t row_of_b() const { return transpose_b_ ? k_ : n_; }

  /// Writes rows [first, last) of the tile from `product`, whose rows are tiling_.n apart, to the
  /// output.
  void finish(const Operands& operands, const Tile& tile, int64_t first, int64_t last,
              T* product) const {
    const float* bias = operands.bias ? operands.bias + tile.column : nullptr;
    const int64_t size = epilogue_.low_precision ? sizeof(uint16_t) : sizeof(T);
    for (int64_t row = first; row < last; ++row) {
      T* in = product + row * tiling_.n;
      std::byte* out = operands.out + (tile.out + row * n_) * size;
      if constexpr (std::is_same_v<T, double>) {
        if (!direct()) std::memcpy(out, in, static_cast<size_t>(tile.n) * sizeof(T));
      } else if (sgd_) {
        auto* w = reinterpret_cast<float*>(out);
        if (sgd_->l2 != 0)
          weighted_sum(in, static_cast<float>(sgd_->gradient), w, static_cast<float>(sgd_->l2), in,
                       tile.n);
        update(in, operands.rate, w, tile.n);
      } else {
        epilogue_.finish(in, bias, out, tile.n);
      }
    }
  }

  /// Computes partial sums over K next to each other in the workspace, then adds them in order,
  /// some rows at a time.
  void launch_deep(const Operands& operands) const {
    const int64_t size = tiling_.m * tiling_.n;
    parallel_for(threads_, tiles() * tiling_.depth, [&](int64_t part, int worker) {
      const int64_t first = part % tiling_.depth * tiling_.k;
      multiply(operands, tile_at(part / tiling_.depth), first, std::min(tiling_.k, k_ - first),
               worker, operands.workspace + part * size);
    });
    constexpr int64_t kRows = 16;
    const int64_t blocks = ceil_div(tiling_.m, kRows);
    parallel_for(threads_, tiles() * blocks, [&](int64_t block, int) {
      const Tile tile = tile_at(block / blocks);
      T* sum = operands.workspace + block / blocks * tiling_.depth * size;
      const int64_t first = block % blocks * kRows, last = std::min(tile.m, first + kRows);
      for (int64_t part = 1; part < tiling_.depth; ++part)
        for (int64_t row = first; row < last; ++row)
          add_to(sum + part * size + row * tiling_.n, sum + row * tiling_.n, tile.n);
      finish(operands, tile, first, last, sum);
    });
  }

  Epilogue epilogue_;
  std::optional<SgdScales> sgd_;  // set if the product updates a variable
  bool low_precision_;
  int threads_;
  bool transpose_a_ = false, transpose_b_ = false;
  int64_t m_ = 0, n_ = 0, k_ = 0;
  std::vector<ProductStart> starts_;
  Tiling tiling_;
  std::shared_ptr<LowPrecisionProducts> low_precision_products_;
};

/// Returns the update if it is the only epilogue op, or nothing.
std::optional<SgdScales> sgd_scales_of(const Request& request) {
  const std::vector<plan::EpilogueOp>& epilogue = request.step.epilogue;
  if (epilogue.size() != 1 || epilogue.front().op->epilogue != ops::Epilogue::kUpdate) return {};
  const plan::Attributes& attributes = epilogue.front().attributes;
  return SgdScales{attributes.get<double>("scale"), attributes.get<double>("rate_scale"),
                   ops::l2_of(attributes)};
}

template <typename T>
Kernel launch_of(Product<T> product) {
  Kernel kernel;
  kernel.workspace = product.workspace();
  kernel.launch = [product = std::move(product)](const Buffers& b, const CallState& call) {
    product.launch(b, call);
  };
  return kernel;
}

Kernel prepare_matmul(const Request& request) {
  const bool low_precision = is_low_precision(request.inputs[0].dtype);
  if (low_precision && !multiplies_low_precision(request.inputs[0].dtype)) return {};
  const Epilogue epilogue = Epilogue::of(request, request.outputs[0].shape.rank() - 1);
  const std::optional<SgdScales> sgd = sgd_scales_of(request);
  Product<float> product(request, epilogue, sgd);
  if (low_precision && !product.prepare_low_precision()) return {};
  Kernel kernel = launch_of(std::move(product));
  kernel.fused = sgd ? 1 : epilogue.fused;
  kernel.library = "oneDNN sgemm";
  return kernel;
}

Kernel prepare_double_matmul(const Request& request) {
  return launch_of(Product<double>(request, {}, {}));
}

}  // namespace

std::span<const KernelEntry> fast::products() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "matmul",
       .prepare = prepare_matmul,
       .low_precision = true,
       .generates_code = true,
       .float64 = prepare_double_matmul},
  };
  return kKernels;
}

}  // namespace flow::cpu
