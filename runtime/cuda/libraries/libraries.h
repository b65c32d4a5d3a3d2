// What NVIDIA's libraries compute for the backend: products (cuBLASLt), convolutions, attention and
// recurrent layers (cuDNN), behind one interface; tests have one of plain loops on the CPU.
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

/// What products of these operands are summed in.
inline DType sum_of(DType operands) {
  return is_low_precision(operands) ? DType::kFloat32 : operands;
}

/// What a library may do for speed.
struct MathMode {
  bool tf32 = false;       // float32 operands are rounded to TF32
  bool any_order = false;  // sums whose order changes from run to run

  bool operator==(const MathMode&) const = default;
};

/// What is done to a result before it is stored: y = relu(y + bias), each if asked for.
struct Epilogue {
  bool bias = false;  // along the columns of a product, the channels of a convolution
  bool relu = false;

  bool operator==(const Epilogue&) const = default;
};

/// What a single product (of rank 2) stores or reads beside its operands and its result.
enum class Aside : uint8_t {
  kNothing,
  kStoreMask,  // with relu: where the result is positive, not where it is 0
  kReadMask,   // the result becomes 0 where such a mask says that another was not positive
  kSumsOfA,    // the sums of op(a) over K, [M]
  kSumsOfB,    // the sums of op(b) over K, [N]
};

/// out = op(a) op(b), row-major: a is [M, K] ([K, M] if transposed), b is [K, N] ([N, K]), out
/// [M, N]; leading axes before these two, where there are any, are equal in all three and count
/// independent products.
struct MatmulSpec {
  DType dtype;  // of a and b; out, a bias and sums have that of the sums
  Shape a, b, out;
  bool transpose_a = false, transpose_b = false;
  MathMode math_mode = {};
  Epilogue epilogue = {};
  Aside aside = Aside::kNothing;
  uint32_t alignment = 256;  // bytes, of the operands in every run

  bool operator==(const MatmulSpec&) const = default;
};

inline bool has_mask(const MatmulSpec& spec) {
  return spec.aside == Aside::kStoreMask || spec.aside == Aside::kReadMask;
}

/// The bytes of a mask of a result [M, N], rows of bits that begin at multiples of 16 bytes. Only
/// the library knows which bit is whose.
inline Shape mask_shape(const Shape& out) { return {out[0], ceil_div(out[1], 128) * 16}; }

/// Convolution (cross-correlation) of x [N, C, H, W] with w [O, C/groups, kh, kw] to y, or one of
/// its gradients. All lie in memory in C order, or all with the channels last: x as [N, H, W, C], w
/// as [O, kh, kw, C/groups].
struct ConvolutionSpec {
  enum class Pass { kForward, kGradData, kGradWeight };
  Pass pass;
  DType dtype;  // of all of them: cuDNN stores sums of 16-bit products in 16 bits
  Shape x, w, y;
  std::vector<int64_t> strides, dilation;  // of H and W
  std::vector<int64_t> pads;               // top, left, bottom, right (the plan's order differs)
  int64_t groups = 1;
  MathMode math_mode = {};
  Epilogue epilogue = {};  // of the forward pass
  bool channels_last = false;
  size_t most_workspace = std::numeric_limits<size_t>::max();  // bytes
};

/// softmax(scale query key^T) value for each head, or its gradients. Shapes are [batches, heads,
/// rows, depth], in C order. Heads of keys divide those of queries, groups of which share them.
/// Nothing of the size of queries times keys is stored but a bias.
struct AttentionSpec {
  enum class Pass { kForward, kGrad };
  Pass pass;
  DType dtype;  // of all but the logarithms of sums, which are float32
  Shape query, key, value;
  double scale = 1;
  bool causal = false;        // query i sees keys 0 to i
  bool bottom_right = false;  // of a causal call: the last query sees all keys
  int64_t window = 0;         // of a causal call: keys that a query sees at most; 0: all
  /// Added to the scaled scores, of `dtype`: [batches or 1, heads or 1, queries, keys].
  std::optional<Shape> bias = {};
  bool lengths = false;   // do queries of a batch see its first keys only?
  bool log_sums = false;  // does the forward pass store, for each query, log(sum(exp(scores)))?
  MathMode math_mode = {};
  size_t most_workspace = std::numeric_limits<size_t>::max();  // bytes

  Shape out() const { return {query[0], query[1], query[2], value[3]}; }
  Shape log_sums_shape() const { return {query[0], query[1], query[2], 1}; }
};

/// Device addresses. kForward: query, key, value -> out and, where the spec wants them, log_sums.
/// kGrad: all of these and dy -> dquery, dkey, dvalue. Lengths are int32 for each batch: all its
/// queries, and at least one of its keys. Of keys from there on the gradients are undefined, and so
/// is the result of a query whose scores are all -inf.
struct AttentionBuffers {
  const std::byte *query, *key, *value;
  std::byte *out, *log_sums;
  std::byte* workspace;
  const std::byte* dy = nullptr;
  std::byte *dquery = nullptr, *dkey = nullptr, *dvalue = nullptr;
  const std::byte *bias = nullptr, *query_lengths = nullptr, *key_lengths = nullptr;
};

/// A recurrent layer in one direction over all steps, or its gradients: x is [rows, steps,
/// features], y [rows, steps, units], states are [rows, units], all in C order. All rows have all
/// steps. The weights lie in one buffer, in the library's layout.
struct RecurrentSpec {
  enum class Pass { kForward, kGrad };
  enum class Cell { kLstm, kGru /* the reset gate comes behind the product */, kTanh };
  Pass pass;
  Cell cell;
  DType dtype;
  int64_t rows, steps, features, units;
  bool input_bias = false, recurrent_bias = false;  // added to W_ih x, to W_hh h
  bool trains = false;  // does the forward pass store what the gradients read?
  MathMode math_mode = {};
  size_t most_workspace = std::numeric_limits<size_t>::max();  // bytes

  bool operator==(const RecurrentSpec&) const = default;
  int64_t gates() const { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
};

/// Where a run of elements of a weight or bias of the plan lies in a library's buffer of weights.
/// The plan has the rows of all gates in one tensor: i, f, g, o; r, z, n.
struct WeightPart {
  enum Tensor : uint8_t { kInput, kRecurrent, kInputBias, kRecurrentBias };
  Tensor tensor;
  size_t from, to, bytes;  // of the tensor, of the buffer: in bytes
};

/// Device addresses. kForward: x, weights, h0, c0 -> y, h, c and, where the spec trains, reserve.
/// kGrad: x, weights, h0, c0, y, reserve, dy, dh, dc -> dx, dh0, dc0, and dweights, to which it
/// adds. It overwrites the reserve. Null: c0, c, dc and dc0 of a cell without them; h, c, dh0, dc0
/// and dweights that nobody reads.
struct RecurrentBuffers {
  const std::byte *x, *weights, *h0, *c0;
  std::byte *y, *h, *c, *reserve;
  std::byte* workspace;
  const std::byte *dy = nullptr, *dh = nullptr, *dc = nullptr;
  std::byte *dx = nullptr, *dh0 = nullptr, *dc0 = nullptr, *dweights = nullptr;
};

/// Device addresses. A product: a, b -> out. kForward: x, w -> y. kGradData: dy, w -> dx.
/// kGradWeight: x, dy -> dw.
struct LibraryBuffers {
  const std::byte* first;
  const std::byte* second;
  const std::byte* bias;  // null without one
  std::byte* out;
  std::byte* workspace;
  std::byte* aside = nullptr;  // null where the product has nothing aside
};

/// Chosen once, run every call: of the same operands the same bits, unless any order was allowed.
template <typename Addresses>
struct KernelOf {
  /// Returns why the library refuses the call after all, or nothing. RunError where the device
  /// fails.
  std::function<std::optional<RunError>(const Addresses&, Stream)> try_run;
  size_t workspace = 0;            // bytes
  std::string name = {};           // of the algorithm: "cuDNN eng62_k2=1, tensor cores"
  std::vector<uint8_t> plan = {};  // of a candidate: what `restore` makes it of again

  /// The same; a refusal is an error.
  void run(const Addresses& buffers, Stream stream) const {
    if (const std::optional<RunError> refusal = try_run(buffers, stream)) throw *refusal;
  }
};
using LibraryKernel = KernelOf<LibraryBuffers>;
using AttentionKernel = KernelOf<AttentionBuffers>;

struct RecurrentKernel : KernelOf<RecurrentBuffers> {
  size_t reserve = 0, weights = 0;  // bytes
  std::vector<WeightPart> layout;   // in the order of the buffer
};

/// Finds kernels for one kind of spec.
template <typename Spec, typename Found>
class KernelFinder {
 public:
  virtual ~KernelFinder() = default;
  /// Or why the library has nothing for the spec on this device. RunError where asking fails.
  virtual Expected<Found> find(const Spec& spec) = 0;
  /// At most `most` kernels within the spec's math mode, each with its plan: what `find` finds and
  /// those that the library expects to be slower. Empty where it has none.
  virtual std::vector<Found> candidates(const Spec& spec, [[maybe_unused]] size_t most) {
    const Expected<Found> found = find(spec);
    return found ? std::vector<Found>{*found} : std::vector<Found>();
  }
  /// The kernel of that plan, or none where the library takes it no more.
  virtual std::optional<Found> restore(const Spec&, std::span<const uint8_t>) { return {}; }
  /// All that a plan depends on but the device and its driver.
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
  /// "cublas" -> "13.0.2"
  virtual std::map<std::string, std::string> versions() const = 0;
};

/// cuBLASLt and cuDNN on the driver's device, each opened when a step first needs it. Their kernels
/// run where that device is current: after a call of its driver, on the same thread. The driver
/// outlives them.
std::unique_ptr<Libraries> open_libraries(Driver& driver);

}  // namespace flow::cuda
