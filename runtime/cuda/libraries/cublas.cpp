// Matrix products by cuBLASLt: their descriptors, the choice of an algorithm and the call.
#include "runtime/cuda/libraries/cublas.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

RunError error_of(cublasStatus_t status, std::string_view what) {
  return RunError(fmt::format("cuBLASLt: {} failed: {}", what, cublasLtGetStatusString(status)),
                  status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ALLOC_FAILED
                      ? "run `nvidia-smi` to see which processes use GPU memory"
                      : "");
}

void check(cublasStatus_t status, std::string_view what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw error_of(status, what);
}

/// Returns true if cuBLASLt does not support the request (for example, an odd extent with an
/// epilogue). This is not a failure.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/// The types that belong to an operand type. A result has the type of the scale.
struct Types {
  cudaDataType_t operand, scale;
  cublasComputeType_t compute;
};

Types types_of(const MatmulSpec& spec) {
  switch (spec.dtype) {
    case DType::kFloat32:
      // The plain compute type multiplies in float32; TF32 has a separate type.
      return {CUDA_R_32F, CUDA_R_32F,
              spec.math_mode.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case DType::kFloat64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::kFloat16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::kBFloat16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      FLOW_CHECK(false, "cuBLASLt multiplies no {}", name_of(spec.dtype));
  }
}

/// Returns the epilogue. cuBLASLt's A is the spec's b, and its B is the spec's a.
cublasLtEpilogue_t epilogue_of(const MatmulSpec& spec) {
  const auto [bias, relu] = spec.epilogue;
  switch (spec.aside) {
    case Aside::kNothing:
      if (bias) return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
      return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
    case Aside::kStoreMask:
      FLOW_CHECK(relu);
      return bias ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_AUX;
    case Aside::kReadMask:
      FLOW_CHECK(!bias && !relu);
      return CUBLASLT_EPILOGUE_DRELU;
    case Aside::kSumsOfA:
      FLOW_CHECK(!bias && !relu);
      return CUBLASLT_EPILOGUE_BGRADB;
    case Aside::kSumsOfB:
      FLOW_CHECK(!bias && !relu);
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  FLOW_CHECK(false);
}

template <typename T>
void set(const Descriptor<cublasLtMatmulDesc_t>& desc, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulDescSetAttribute(desc.get(), attribute, &value, sizeof value),
        "describing a product");
}
template <typename T>
void set(const Descriptor<cublasLtMatrixLayout_t>& layout,
         cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value),
        "describing a matrix");
}
template <typename T>
void set(const Descriptor<cublasLtMatmulPreference_t>& preference,
         cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "describing preferences");
}

/// Sums are stored at the address from which a bias would be read.
void set_pointers(const Descriptor<cublasLtMatmulDesc_t>& desc, const MatmulSpec& spec,
                  const void* bias, const void* aside) {
  if (spec.epilogue.bias) set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (has_mask(spec))
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aside);
  else if (spec.aside != Aside::kNothing)
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aside);
}

/// Returns the layout of the row-major matrices in the last two axes of `shape`, seen as transposed
/// column-major matrices.
Descriptor<cublasLtMatrixLayout_t> layout_of(cudaDataType_t type, const Shape& shape) {
  const int rank = shape.rank();
  FLOW_CHECK(rank >= 2);
  const int64_t rows = shape[rank - 1], columns = shape[rank - 2];
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), rows),
        "describing a matrix");
  Descriptor<cublasLtMatrixLayout_t> layout(made);
  const auto batches = static_cast<int32_t>(shape.elements(0, rank - 2));
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  return layout;
}

constexpr uint64_t kWorkspace = 32 << 20;  // bytes

/// Requires partial sums to be added in the workspace, in a fixed order and without being rounded
/// before.
Descriptor<cublasLtMatmulPreference_t> preference_of(const MatmulSpec& spec) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "describing preferences");
  Descriptor<cublasLtMatmulPreference_t> preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, spec.alignment);
  return preference;
}

std::string text_of(const MatmulSpec& spec) {
  return fmt::format("{}{} by {}{}, {}", spec.a.str(), spec.transpose_a ? " transposed" : "",
                     spec.b.str(), spec.transpose_b ? " transposed" : "", name_of(spec.dtype));
}

/// Returns the name of an algorithm, such as "cuBLASLt algorithm 66".
std::string name_of_algorithm(const cublasLtMatmulAlgo_t& algorithm) {
  int32_t id = 0;
  size_t written = 0;
  const bool known =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id,
                                           &written) == CUBLAS_STATUS_SUCCESS;
  return known ? fmt::format("cuBLASLt algorithm {}", id) : "cuBLASLt";
}

}  // namespace

ProductDescriptors describe(const MatmulSpec& spec) {
  const Types types = types_of(spec);
  ProductDescriptors product;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, types.compute, types.scale), "describing a product");
  product.desc.reset(made);
  set(product.desc, CUBLASLT_MATMUL_DESC_TRANSA, spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product.desc, CUBLASLT_MATMUL_DESC_TRANSB, spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec));
  if (has_mask(spec))
    set(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8 * mask_shape(spec.out)[1]);
  product.left = layout_of(types.operand, spec.b);
  product.right = layout_of(types.operand, spec.a);
  product.out = layout_of(types.scale, spec.out);
  product.preference = preference_of(spec);
  return product;
}

Cublas::Cublas() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "starting");
  handle_.reset(handle);
}

/// Returns nothing if the library reports that it cannot run the algorithm.
std::optional<Cublas::Algorithm> Cublas::check_algorithm(const ProductDescriptors& product,
                                                         const cublasLtMatmulAlgo_t& choice) const {
  cublasLtMatmulHeuristicResult_t checked = {};
  if (cublasLtMatmulAlgoCheck(handle_.get(), product.desc.get(), product.left.get(),
                              product.right.get(), product.out.get(), product.out.get(), &choice,
                              &checked) != CUBLAS_STATUS_SUCCESS ||
      checked.workspaceSize > kWorkspace)
    return {};
  return Algorithm{choice, checked.workspaceSize};
}

/// Returns the best algorithms that the library reports it can run. Its heuristic also lists some
/// that it cannot run.
std::vector<Cublas::Algorithm> Cublas::choose(const ProductDescriptors& product,
                                              size_t most) const {
  constexpr int kMost = 8;
  cublasLtMatmulHeuristicResult_t choices[kMost] = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), product.desc.get(), product.left.get(), product.right.get(), product.out.get(),
      product.out.get(), product.preference.get(), kMost, choices, &found);
  if (!is_refusal(status)) check(status, "choosing an algorithm");
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < found && algorithms.size() < most; ++i)
    if (choices[i].state == CUBLAS_STATUS_SUCCESS)
      if (const auto algorithm = check_algorithm(product, choices[i].algo))
        algorithms.push_back(*algorithm);
  return algorithms;
}

namespace {

/// Chooses algorithms for vectors with the alignment that every buffer has.
std::shared_ptr<const ProductDescriptors> describe_aligned(const MatmulSpec& spec) {
  const auto product = std::make_shared<const ProductDescriptors>(describe(spec));
  const auto* aligned = reinterpret_cast<const void*>(256);
  set_pointers(product->desc, spec, aligned, aligned);
  return product;
}

}  // namespace

Expected<LibraryKernel> Cublas::find(const MatmulSpec& spec) {
  if (spec.aside == Aside::kStoreMask && !spec.epilogue.relu)
    return RunError("cuBLASLt supports masks only for ReLU");
  const std::vector<LibraryKernel> best = candidates(spec, 1);
  if (best.empty())
    return RunError(fmt::format("cuBLASLt {} has no algorithm for the product of {}", version(),
                                text_of(spec)));
  return best.front();
}

std::vector<LibraryKernel> Cublas::candidates(const MatmulSpec& spec, size_t most) {
  const auto product = describe_aligned(spec);
  std::vector<LibraryKernel> kernels;
  for (const Algorithm& algorithm : choose(*product, most))
    kernels.push_back(kernel_of(spec, product, algorithm));
  return kernels;
}

std::optional<LibraryKernel> Cublas::restore(const MatmulSpec& spec,
                                             std::span<const uint8_t> plan) {
  cublasLtMatmulAlgo_t choice;
  if (plan.size() != sizeof choice) return {};
  std::memcpy(&choice, plan.data(), sizeof choice);
  const auto product = describe_aligned(spec);
  const auto algorithm = check_algorithm(*product, choice);
  return algorithm ? std::optional(kernel_of(spec, product, *algorithm)) : std::nullopt;
}

std::string Cublas::describe(const MatmulSpec& spec) {
  return fmt::format(
      "product of {} to {}, tf32 {}, any order {}, bias {}, relu {}, aside {}, alignment {}, "
      "cuBLASLt {}",
      text_of(spec), spec.out.str(), spec.math_mode.tf32, spec.math_mode.any_order,
      spec.epilogue.bias, spec.epilogue.relu, static_cast<int>(spec.aside), spec.alignment,
      version());
}

LibraryKernel Cublas::kernel_of(const MatmulSpec& spec,
                                std::shared_ptr<const ProductDescriptors> product,
                                const Algorithm& algorithm) const {
  LibraryKernel kernel;
  kernel.workspace = algorithm.workspace;
  kernel.name = name_of_algorithm(algorithm.choice);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&algorithm.choice);
  kernel.plan.assign(bytes, bytes + sizeof algorithm.choice);
  kernel.try_run = [product = std::move(product), spec, algorithm, handle = handle_.get()](
                       const LibraryBuffers& b, Stream stream) -> std::optional<RunError> {
    constexpr double kOne = 1, kZero = 0;
    constexpr float kOneFloat = 1, kZeroFloat = 0;
    const bool is_double = spec.dtype == DType::kFloat64;
    const void* one = is_double ? static_cast<const void*>(&kOne) : &kOneFloat;
    const void* zero = is_double ? static_cast<const void*>(&kZero) : &kZeroFloat;
    set_pointers(product->desc, spec, b.bias, b.aside);
    const cublasStatus_t status =
        cublasLtMatmul(handle, product->desc.get(), one, b.second, product->left.get(), b.first,
                       product->right.get(), zero, b.out, product->out.get(), b.out,
                       product->out.get(), &algorithm.choice, b.workspace, algorithm.workspace,
                       static_cast<cudaStream_t>(stream.handle));
    if (is_refusal(status)) return error_of(status, "a product");
    check(status, "a product");
    return std::nullopt;
  };
  return kernel;
}

std::string Cublas::version() {
  const size_t version = cublasLtGetVersion();  // such as 130002
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace flow::cuda
