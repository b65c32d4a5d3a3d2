// Multiplies matrices of doubles block by block. A block of each operand is packed before it is
// multiplied: a into panels of 6 rows, column by column, and b into panels of 16 columns, row by
// row, with zeros beyond the edges. The product of 6 rows and 16 columns stays in registers until
// it is complete: as a whole with AVX-512, in parts with narrower vectors. Goto and van de Geijn,
// "Anatomy of high-performance matrix multiplication".
#include "runtime/cpu/loops/double_products.h"

#include <algorithm>

#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/features.h"

namespace flow::cpu {
namespace {

constexpr int kRows = 6, kColumns = 16;  // rows of a panel of a, columns of a panel of b
// A block of a fits in the second-level cache.
constexpr int64_t kBlockM = 96, kBlockN = 192, kBlockK = 192;
static_assert(kBlockM % kRows == 0 && kBlockN % kColumns == 0);

/// A product of packed panels: out [m, n] (+)= a [m, k] b [k, n].
struct Block {
  int64_t m, n, k;
  const double *a, *b;
  double* out;
  int64_t stride;
  bool accumulate;
};

/// Packs panels of kWidth lines of [lines, k]. Element p of line i is at from[i * line + p *
/// along].
template <int kWidth>
void pack(const double* from, int64_t line, int64_t along, int64_t lines, int64_t k, double* to) {
  for (int64_t first = 0; first < lines; first += kWidth) {
    const double* panel = from + first * line;
    const int64_t count = std::min<int64_t>(kWidth, lines - first);
    for (int64_t p = 0; p < k; ++p, to += kWidth)
      if (count == kWidth && line == 1)
        std::copy_n(panel + p * along, kWidth, to);
      else if (count == kWidth)
        for (int i = 0; i < kWidth; ++i) to[i] = panel[i * line + p * along];
      else
        for (int i = 0; i < kWidth; ++i) to[i] = i < count ? panel[i * line + p * along] : 0.0;
  }
}

/// Multiplies with vectors of `kLanes` doubles.
template <int kLanes>
[[gnu::always_inline]] inline void multiply_block(const Block& block) {
  // The vector type may have any address at which doubles can be.
  typedef double Vector __attribute__((vector_size(kLanes * 8), aligned(8), may_alias));
  constexpr int64_t kWidth = 2 * kLanes;  // the number of columns that are computed at a time
  for (int64_t j = 0; j < block.n; j += kWidth) {
    const double* from_b = block.b + j / kColumns * block.k * kColumns + j % kColumns;
    const int64_t columns = std::min(kWidth, block.n - j);
    for (int64_t i = 0; i < block.m; i += kRows) {
      const double *a = block.a + i * block.k, *b = from_b;
      Vector left[kRows] = {}, right[kRows] = {};
      for (int64_t p = 0; p < block.k; ++p, a += kRows, b += kColumns) {
        const Vector b_left = *reinterpret_cast<const Vector*>(b);
        const Vector b_right = *reinterpret_cast<const Vector*>(b + kLanes);
        for (int row = 0; row < kRows; ++row) {
          left[row] += a[row] * b_left;
          right[row] += a[row] * b_right;
        }
      }
      const int64_t rows = std::min<int64_t>(kRows, block.m - i);
      double* out = block.out + i * block.stride + j;
      for (int64_t row = 0; row < rows; ++row, out += block.stride) {
        double edge[kWidth] = {};
        if (columns < kWidth) std::copy_n(out, columns, edge);
        Vector* to = reinterpret_cast<Vector*>(columns < kWidth ? edge : out);
        to[0] = block.accumulate ? to[0] + left[row] : left[row];
        to[1] = block.accumulate ? to[1] + right[row] : right[row];
        if (columns < kWidth) std::copy_n(edge, columns, out);
      }
    }
  }
}

[[gnu::target("avx512f")]] void multiply_by_512_bits(const Block& block) {
  multiply_block<8>(block);
}

[[gnu::target("avx2,fma")]] void multiply_by_256_bits(const Block& block) {
  multiply_block<4>(block);
}

void multiply_by_128_bits(const Block& block) { multiply_block<2>(block); }

/// Returns the function for this CPU, or for the instruction set to which oneDNN is restricted.
auto choose_multiply() {
  const int bits = vector_bits();
  return bits == 512   ? multiply_by_512_bits
         : bits == 256 ? multiply_by_256_bits
                       : multiply_by_128_bits;
}

}  // namespace

const int64_t kDoubleProductScratch = kBlockK * (kBlockM + kBlockN);

void multiply_doubles(int64_t m, int64_t n, int64_t k, const DoubleMatrix& a, const DoubleMatrix& b,
                      double* out, int64_t stride, bool accumulate, double* scratch) {
  static const auto multiply = choose_multiply();
  double *packed_a = scratch, *packed_b = scratch + kBlockK * kBlockM;
  for (int64_t j = 0; j < n; j += kBlockN) {
    const int64_t columns = std::min(kBlockN, n - j);
    for (int64_t p = 0; p < k; p += kBlockK) {
      const int64_t depth = std::min(kBlockK, k - p);
      pack<kColumns>(b.data + p * b.row + j * b.column, b.column, b.row, columns, depth, packed_b);
      for (int64_t i = 0; i < m; i += kBlockM) {
        const int64_t rows = std::min(kBlockM, m - i);
        pack<kRows>(a.data + i * a.row + p * a.column, a.row, a.column, rows, depth, packed_a);
        multiply({rows, columns, depth, packed_a, packed_b, out + i * stride + j, stride,
                  accumulate || p > 0});
      }
    }
  }
}

}  // namespace flow::cpu
