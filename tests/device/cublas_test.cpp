// What cuBLASLt is told of a product, read back and computed as cuBLASLt would: by columns.
#include <catch2/catch.hpp>

#include <random>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/cuda/libraries/cublas.h"

namespace flow::test {
namespace {

using cuda::MatmulSpec;
using cuda::ProductDescriptors;

struct Layout {
  int64_t rows, columns, leading, stride;
  int32_t batches;
  /// Element (i, j) of matrix `batch`, by columns.
  size_t at(int64_t batch, int64_t i, int64_t j) const {
    return static_cast<size_t>(batch * stride + j * leading + i);
  }
};

template <typename T>
T read(const cuda::Descriptor<cublasLtMatrixLayout_t>& layout,
       cublasLtMatrixLayoutAttribute_t attribute) {
  T value{};
  size_t written = 0;
  REQUIRE(cublasLtMatrixLayoutGetAttribute(layout.get(), attribute, &value, sizeof value,
                                           &written) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(written == sizeof value);
  return value;
}

template <typename T>
T read(const cuda::Descriptor<cublasLtMatmulDesc_t>& desc,
       cublasLtMatmulDescAttributes_t attribute) {
  T value{};
  size_t written = 0;
  REQUIRE(cublasLtMatmulDescGetAttribute(desc.get(), attribute, &value, sizeof value, &written) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(written == sizeof value);
  return value;
}

Layout read_layout(const cuda::Descriptor<cublasLtMatrixLayout_t>& layout) {
  return {read<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS),
          read<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS),
          read<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD),
          read<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
          read<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)};
}

using Values = std::vector<double>;

/// out = op(left) op(right), as the descriptors say.
Values multiply_by_columns(const ProductDescriptors& product, const Values& left_values,
                           const Values& right_values, size_t out_size) {
  const Layout left = read_layout(product.left), right = read_layout(product.right);
  const Layout out = read_layout(product.out);
  const bool transpose_left =
      read<int32_t>(product.desc, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
  const bool transpose_right =
      read<int32_t>(product.desc, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const int64_t inner = transpose_left ? left.rows : left.columns;
  REQUIRE((transpose_left ? left.columns : left.rows) == out.rows);
  REQUIRE((transpose_right ? right.rows : right.columns) == out.columns);
  REQUIRE((transpose_right ? right.columns : right.rows) == inner);
  REQUIRE((left.batches == out.batches && right.batches == out.batches));
  Values result(out_size, -1);
  for (int64_t batch = 0; batch < out.batches; ++batch)
    for (int64_t i = 0; i < out.rows; ++i)
      for (int64_t j = 0; j < out.columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += left_values.at(transpose_left ? left.at(batch, k, i) : left.at(batch, i, k)) *
                 right_values.at(transpose_right ? right.at(batch, j, k) : right.at(batch, k, j));
        result.at(out.at(batch, i, j)) = sum;
      }
  return result;
}

/// out[..., M, N] = op(a) op(b), by rows, as MatmulSpec says.
Values multiply_by_rows(const MatmulSpec& spec, const Values& a, const Values& b) {
  const int rank = spec.out.rank();
  const int64_t m = spec.out[rank - 2], n = spec.out[rank - 1];
  const int64_t k = spec.a[spec.transpose_a ? rank - 2 : rank - 1];
  Values out;
  for (int64_t batch = 0; batch < spec.out.elements(0, rank - 2); ++batch)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum +=
              a[static_cast<size_t>(batch * m * k + (spec.transpose_a ? l * m + i : i * k + l))] *
              b[static_cast<size_t>(batch * k * n + (spec.transpose_b ? j * k + l : l * n + j))];
        out.push_back(sum);
      }
  return out;
}

/// Leading axes (none to two), then the matrices of a product.
MatmulSpec random_product(std::mt19937& generator) {
  const auto roll = [&](int64_t most) {
    return 1 + static_cast<int64_t>(generator() % static_cast<uint64_t>(most));
  };
  const int64_t m = roll(6), n = roll(6), k = roll(6);
  std::vector<int64_t> leading(generator() % 3);
  for (int64_t& extent : leading) extent = roll(3);
  const auto matrices = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> extents = leading;
    extents.insert(extents.end(), {rows, columns});
    return Shape(extents);
  };
  MatmulSpec spec{DType::kFloat32, {}, {}, matrices(m, n)};
  spec.transpose_a = generator() % 2 == 1, spec.transpose_b = generator() % 2 == 1;
  spec.a = spec.transpose_a ? matrices(k, m) : matrices(m, k);
  spec.b = spec.transpose_b ? matrices(n, k) : matrices(k, n);
  return spec;
}

Values whole_numbers(std::mt19937& generator, const Shape& shape) {
  Values values(static_cast<size_t>(shape.elements()));
  for (double& value : values) value = static_cast<double>(generator() % 19) - 9;
  return values;
}

TEST_CASE("cuBLASLt is told of the product that the spec means") {
  std::mt19937 generator(1);
  for (int i = 0; i < 300; ++i) {
    const MatmulSpec spec = random_product(generator);
    const Values a = whole_numbers(generator, spec.a), b = whole_numbers(generator, spec.b);
    INFO(spec.a.str() << spec.transpose_a << " " << spec.b.str() << spec.transpose_b);
    const Values wanted = multiply_by_rows(spec, a, b);
    REQUIRE(multiply_by_columns(cuda::describe(spec), b, a, wanted.size()) == wanted);
  }
}

TEST_CASE("A product computes in its own precision, in TF32 only where that is allowed") {
  struct Case {
    DType dtype;
    bool tf32;
    cublasComputeType_t compute;
    cudaDataType_t operand, result;
  };
  const Case cases[] = {
      {DType::kFloat32, false, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F},
      {DType::kFloat32, true, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F},
      {DType::kFloat64, false, CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F},
      {DType::kFloat64, true, CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F},
      {DType::kFloat16, false, CUBLAS_COMPUTE_32F, CUDA_R_16F, CUDA_R_32F},
      {DType::kBFloat16, false, CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_32F}};
  for (const Case& c : cases) {
    MatmulSpec spec{c.dtype, {2, 3}, {3, 4}, {2, 4}};
    spec.math_mode.tf32 = c.tf32;
    const ProductDescriptors product = cuda::describe(spec);
    CHECK(read<int32_t>(product.desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) == c.compute);
    CHECK(read<uint32_t>(product.left, CUBLASLT_MATRIX_LAYOUT_TYPE) == c.operand);
    CHECK(read<uint32_t>(product.right, CUBLASLT_MATRIX_LAYOUT_TYPE) == c.operand);
    CHECK(read<uint32_t>(product.out, CUBLASLT_MATRIX_LAYOUT_TYPE) == c.result);
  }
}

TEST_CASE("The bias of a product is as long as its rows, whose elements lie together") {
  MatmulSpec spec{DType::kFloat32, {2, 3}, {3, 4}, {2, 4}};
  spec.epilogue = {true, true};
  const ProductDescriptors product = cuda::describe(spec);
  CHECK(read<uint32_t>(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_RELU_BIAS);
  CHECK(read_layout(product.out).rows == 4);  // cuBLASLt's bias runs along its rows
}

TEST_CASE("What a product stores or reads aside is named by its place in cuBLASLt's product") {
  struct Case {
    cuda::Aside aside;
    cuda::Epilogue epilogue;
    cublasLtEpilogue_t wanted;
    int64_t mask;  // bits of a row, or 0
  };
  using cuda::Aside;
  // cuBLASLt's A is our b, its B our a; a row of our mask is a column of its own.
  const Case cases[] = {
      {Aside::kStoreMask, {.relu = true}, CUBLASLT_EPILOGUE_RELU_AUX, 256},
      {Aside::kStoreMask, {.bias = true, .relu = true}, CUBLASLT_EPILOGUE_RELU_AUX_BIAS, 256},
      {Aside::kReadMask, {}, CUBLASLT_EPILOGUE_DRELU, 256},
      {Aside::kSumsOfA, {}, CUBLASLT_EPILOGUE_BGRADB, 0},
      {Aside::kSumsOfB, {}, CUBLASLT_EPILOGUE_BGRADA, 0}};
  for (const Case& c : cases) {
    MatmulSpec spec{DType::kFloat32, {2, 3}, {3, 130}, {2, 130}};
    spec.aside = c.aside;
    spec.epilogue = c.epilogue;
    const ProductDescriptors product = cuda::describe(spec);
    CHECK(read<uint32_t>(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE) ==
          static_cast<uint32_t>(c.wanted));
    CHECK(read<int64_t>(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) == c.mask);
    CHECK(cuda::mask_shape(spec.out) == Shape{2, 32});
  }
  MatmulSpec spec{DType::kFloat32, {2, 3}, {3, 4}, {2, 4}};
  spec.aside = cuda::Aside::kStoreMask;
  CHECK_THROWS_AS(cuda::describe(spec), Defect);
}

}  // namespace
}  // namespace flow::test
