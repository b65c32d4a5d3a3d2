// An interface to the NVIDIA libraries that compute products (cuBLASLt), convolutions, attention
// and recurrent layers (cuDNN) for the backend. Tests have an implementation with plain loops on
// the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {

/// Returns the dtype in which products of these operands are summed.
inline DType sum_of(DType operands) {
  return is_low_precision(operands) ? DType::kFloat32 : operands;
}

/// The approximations that a library may use for speed.
struct MathMode {
  bool tf32 = false;       // float32 operands are rounded to TF32
  bool any_order = false;  // the order of sums may change from run to run

  bool operator==(const MathMode&) const = default;
};

/// The operations on a result before it is stored: y = relu(y + bias), each of them optional.
struct Epilogue {
  bool bias = false;  // added along the columns of a product or the channels of a convolution
  bool relu = false;

  bool operator==(const Epilogue&) const = default;
};

/// The additional tensor that a single product (of rank 2) stores or reads besides its operands and
/// its result.
enum class Aside : uint8_t {
  kNothing,
  kStoreMask,  // stores the mask of positive results, which excludes 0; requires a relu
  kReadMask,   // sets an element to 0 if a stored mask marks it as not positive in another result
  kSumsOfA,    // the sums of op(a) over K, [M]
  kSumsOfB,    // the sums of op(b) over K, [N]
};

/// out = op(a) op(b), row-major. a is [M, K] ([K, M] if transposed), b is [K, N] ([N, K] if
/// transposed) and out is [M, N]. Any leading axes before these two are equal in all three tensors
/// and count independent products.
struct MatmulSpec {
  DType dtype;  // the dtype of a and b; out, a bias and sums have the dtype of the sums
  Shape a, b, out;
  bool transpose_a = false, transpose_b = false;
  MathMode math_mode = {};
  Epilogue epilogue = {};
  Aside aside = Aside::kNothing;
  uint32_t alignment = 256;  // bytes; the alignment of the operands in every run

  bool operator==(const MatmulSpec&) const = default;
};

inline bool has_mask(const MatmulSpec& spec) {
  return spec.aside == Aside::kStoreMask || spec.aside == Aside::kReadMask;
}

/// Returns the bytes of the mask of a result [M, N], in rows of bits that begin at multiples of 16
/// bytes. Only the library knows which bit belongs to which element.
inline Shape mask_shape(const Shape& out) { return {out[0], ceil_div(out[1], 128) * 16}; }

/// A convolution (cross-correlation) of x [N, C, H, W] with w [O, C/groups, kh, kw] to y, or one of
/// its gradients. Either all tensors are in memory in C order, or all have the channels last: x as
/// [N, H, W, C] and w as [O, kh, kw, C/groups].
struct ConvolutionSpec {
  enum class Pass { kForward, kGradData, kGradWeight };
  Pass pass;
  DType dtype;  // the dtype of all tensors: cuDNN stores sums of 16-bit products in 16 bits
  Shape x, w, y;
  std::vector<int64_t> strides, dilation;  // one element each for H and W
  // Top, left, bottom, right (the order in the plan differs).
  std::vector<int64_t> pads;
  int64_t groups = 1;
  MathMode math_mode = {};
  Epilogue epilogue = {};  // used in the forward pass
  bool channels_last = false;
  size_t most_workspace = std::numeric_limits<size_t>::max();  // bytes
};

/// softmax(scale query key^T) value for each head, or its gradients. Shapes are [batches, heads,
/// rows, depth] in C order. The number of key heads divides the number of query heads; a group of
/// query heads shares one key head. No tensor of the size of queries times keys is stored, except
/// for a bias.
struct AttentionSpec {
  enum class Pass { kForward, kGrad };
  Pass pass;
  DType dtype;  // the dtype of all tensors except the logarithms of sums, which are float32
  Shape query, key, value;
  double scale = 1;
  bool causal = false;        // true if query i sees keys 0 to i
  bool bottom_right = false;  // true if the last query of a causal call sees all keys
  int64_t window = 0;         // the most keys that a query of a causal call sees; 0 for all keys
  /// The shape of a bias of dtype `dtype` that is added to the scaled scores: [batches or 1, heads
  /// or 1, queries, keys].
  std::optional<Shape> bias = {};
  bool lengths = false;   // true if the queries of a batch see only its first keys
  bool log_sums = false;  // true if the forward pass stores log(sum(exp(scores))) for each query
  MathMode math_mode = {};
  size_t most_workspace = std::numeric_limits<size_t>::max();  // bytes

  Shape out() const { return {query[0], query[1], query[2], value[3]}; }
  Shape log_sums_shape() const { return {query[0], query[1], query[2], 1}; }
};

/// Device addresses. kForward reads `query`, `key` and `value` and writes `out` and, if the spec
/// requests it, `log_sums`. kGrad reads all of these and `dy` and writes `dquery`, `dkey` and
/// `dvalue`. Lengths are int32, one for each batch: `query_lengths` count all its queries, and
/// `key_lengths` at least one of its keys. Gradients of the keys after a batch's length are
/// undefined, and so is the result of a query whose scores are all -inf.
struct AttentionBuffers {
  const std::byte *query, *key, *value;
  std::byte *out, *log_sums;
  std::byte* workspace;
  const std::byte* dy = nullptr;
  std::byte *dquery = nullptr, *dkey = nullptr, *dvalue = nullptr;
  const std::byte *bias = nullptr, *query_lengths = nullptr, *key_lengths = nullptr;
};

/// A recurrent layer in one direction over all steps, or its gradients. x is [rows, steps,
/// features], y is [rows, steps, units] and states are [rows, units], all in C order. Every row has
/// all steps. The weights are stored in one buffer in the library's layout.
struct RecurrentSpec {
  enum class Pass { kForward, kGrad };
  enum class Cell { kLstm, kGru /* applies the reset gate after the product */, kTanh };
  Pass pass;
  Cell cell;
  DType dtype;
  int64_t rows, steps, features, units;
  bool input_bias = false, recurrent_bias = false;  // added to W_ih x and to W_hh h
  bool trains = false;  // true if the forward pass stores the data that the gradients read
  MathMode math_mode = {};
  size_t most_workspace = std::numeric_limits<size_t>::max();  // bytes

  bool operator==(const RecurrentSpec&) const = default;
  int64_t gates() const { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
};

/// The position of a run of elements of the plan's weight or bias in a library's weight buffer. The
/// plan stores the rows of all gates in one tensor, in the order i, f, g, o or r, z, n.
struct WeightPart {
  enum Tensor : uint8_t { kInput, kRecurrent, kInputBias, kRecurrentBias };
  Tensor tensor;
  size_t from, to, bytes;  // offsets in the tensor and in the buffer, and the size, all in bytes
};

/// Device addresses. kForward reads `x`, `weights`, `h0` and `c0` and writes `y`, `h`, `c` and, if
/// the spec trains, `reserve`. kGrad reads `x`, `weights`, `h0`, `c0`, `y`, `reserve`, `dy`, `dh`
/// and `dc`, writes `dx`, `dh0` and `dc0`, adds to `dweights`, and overwrites `reserve`. `c0`, `c`,
/// `dc` and `dc0` are null if the cell has no cell state; `h`, `c`, `dh0`, `dc0` and `dweights` are
/// null if no step reads them.
struct RecurrentBuffers {
  const std::byte *x, *weights, *h0, *c0;
  std::byte *y, *h, *c, *reserve;
  std::byte* workspace;
  const std::byte *dy = nullptr, *dh = nullptr, *dc = nullptr;
  std::byte *dx = nullptr, *dh0 = nullptr, *dc0 = nullptr, *dweights = nullptr;
};

/// Device addresses. A product reads a and b and writes out. kForward reads x and w and writes y.
/// kGradData reads dy and w and writes dx. kGradWeight reads x and dy and writes dw.
struct LibraryBuffers {
  const std::byte* first;
  const std::byte* second;
  const std::byte* bias;  // null if there is no bias
  std::byte* out;
  std::byte* workspace;
  std::byte* aside = nullptr;  // null if the product has no aside
};

/// A kernel that is chosen once and runs in every call. Equal operands give bit-identical results
/// unless the math mode allows any order.
template <typename Addresses>
struct KernelOf {
  /// Returns the reason if the library refuses the call after all, or nothing. Throws RunError if
  /// the device fails.
  std::function<std::optional<RunError>(const Addresses&, Stream)> try_run;
  size_t workspace = 0;            // bytes
  std::string name = {};           // the algorithm, such as "cuDNN eng62_k2=1, tensor cores"
  std::vector<uint8_t> plan = {};  // set for a candidate: `restore` turns it into the kernel again

  /// Runs the kernel; a refusal is an error.
  void run(const Addresses& buffers, Stream stream) const {
    if (const std::optional<RunError> refusal = try_run(buffers, stream)) throw *refusal;
  }
};
using LibraryKernel = KernelOf<LibraryBuffers>;
using AttentionKernel = KernelOf<AttentionBuffers>;

struct RecurrentKernel : KernelOf<RecurrentBuffers> {
  size_t reserve = 0, weights = 0;  // bytes
  std::vector<WeightPart> layout;   // sorted by position in the buffer
};

/// Finds kernels for one kind of spec.
template <typename Spec, typename Found>
class KernelFinder {
 public:
  virtual ~KernelFinder() = default;
  /// Returns a kernel, or the reason why the library has none for the spec on this device. Throws
  /// RunError if the query fails.
  virtual Expected<Found> find(const Spec& spec) = 0;
  /// Returns at most `most` kernels within the spec's math mode, each with its plan: the kernel
  /// that `find` returns and those that the library expects to be slower. Returns nothing if the
  /// library has no kernel.
  virtual std::vector<Found> candidates(const Spec& spec, [[maybe_unused]] size_t most) {
    const Expected<Found> found = find(spec);
    return found ? std::vector<Found>{*found} : std::vector<Found>();
  }
  /// Returns the kernel of a plan, or nothing if the library no longer accepts the plan.
  virtual std::optional<Found> restore(const Spec&, std::span<const uint8_t>) { return {}; }
  /// Describes everything that a plan depends on except the device and its driver.
  virtual std::string describe(const Spec&) const { return {}; }
};

class Libraries : public KernelFinder<MatmulSpec, LibraryKernel>,
                  public KernelFinder<ConvolutionSpec, LibraryKernel>,
                  public KernelFinder<AttentionSpec, AttentionKernel>,
                  public KernelFinder<RecurrentSpec, RecurrentKernel> {
 public:
  using KernelFinder<MatmulSpec, LibraryKernel>::find;
  using KernelFinder<ConvolutionSpec, LibraryKernel>::find;
  using KernelFinder<AttentionSpec, AttentionKernel>::find;
  using KernelFinder<RecurrentSpec, RecurrentKernel>::find;
  using KernelFinder<MatmulSpec, LibraryKernel>::describe;
  using KernelFinder<ConvolutionSpec, LibraryKernel>::describe;
  using KernelFinder<AttentionSpec, AttentionKernel>::describe;
  /// Returns the version of each library, such as "cublas" -> "13.0.2".
  virtual std::map<std::string, std::string> versions() const = 0;
};

/// Returns cuBLASLt and cuDNN on the driver's device. Each is opened when a step first needs it.
/// Their kernels run only while that device is current, that is, after a call of its driver on the
/// same thread. The driver outlives them.
std::unique_ptr<Libraries> open_libraries(Driver& driver);

}  // namespace flow::cuda
