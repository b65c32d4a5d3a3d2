// Batch normalization over (outer, channels, inner): y = (x - mean) / sqrt(variance + epsilon) *
// gamma + beta, with an optional residual and ReLU, and its gradients. Sums are split into chunks
// that depend only on the shape, and are added in fixed trees in float64. x, y and their gradients
// may have 16 bits; vectors along the channels and the computation then have 32 bits.
#include <cmath>

#include "ops/batch_norm/cuda_statistics.h"
#include "ops/core/cuda_launch.cuh"
#include "ops/core/known.h"
#include "ops/unary/unary.h"
#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/channels.cuh"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

/// x - x0 and its square, where x0 is the channel's first element. With this shift, the variance is
/// not a small difference of large numbers.
template <typename T>
struct Distances {
  const T* x;
  __device__ Pair operator()(const Channels& channels, int64_t c, int64_t at) const {
    const double off = convert<double>(x[at]) - convert<double>(x[channels.at(c, 0)]);
    return {off, off * off};
  }
};

/// The function y = (x - center) factor + term.
template <typename T>
struct Line {
  T center, factor, term;
  __device__ T operator()(T x) const { return (x - center) * factor + term; }
};

/// The constants of each channel, as vectors of C elements in the workspace. `mean` and `slope` are
/// used only by the gradient.
template <typename T>
struct PerChannel {
  T *center, *factor, *term, *mean, *slope;

  __device__ Line<T> line(int64_t c) const { return {center[c], factor[c], term[c]}; }
};

/// Returns dy, or 0 if a relu followed and its input was 0 or less.
template <typename T>
__device__ T passed(bool rectified, const Line<T>& line, T dy, T x) {
  return rectified && line(x) <= 0 ? T{0} : dy;
}

/// dy, and dy times the difference of x from its mean.
template <typename T>
struct GradientTerms {
  const T *dy, *x;
  PerChannel<Wide<T>> k;
  bool rectified;

  __device__ Pair operator()(const Channels&, int64_t c, int64_t at) const {
    const Line<Wide<T>> line = k.line(c);
    const auto from = convert<Wide<T>>(x[at]);
    const auto g = static_cast<double>(passed(rectified, line, convert<Wide<T>>(dy[at]), from));
    return {g, g * (static_cast<double>(from) - static_cast<double>(line.center))};
  }
};

__device__ inline double inverse_of(double variance, double epsilon) {
  return 1 / ::sqrt(variance + epsilon);
}

/// The factor of a channel, which is bit-identical in every pass over the channel.
template <typename T>
__device__ T factor_of(T gamma, T variance, double epsilon) {
  return static_cast<T>(static_cast<double>(gamma) *
                        inverse_of(static_cast<double>(variance), epsilon));
}

/// Computes the statistics and constants of each channel with one warp per channel.
template <typename T>
__global__ void finish_moments(Channels channels, double epsilon, const Pair* parts, const T* x,
                               const Wide<T>* gamma, const Wide<T>* beta, PerChannel<Wide<T>> k,
                               Wide<T>* mean, Wide<T>* variance) {
  for (int64_t c = blockIdx.x; c < channels.channels; c += gridDim.x) {
    const Pair sums = sum_chunks(channels, parts, c);
    if (threadIdx.x > 0) continue;
    const auto n = static_cast<double>(channels.count());
    const double off = sums.a / n, found = sums.b / n - off * off;
    const auto biased = static_cast<Wide<T>>(found < 0 ? 0 : found);
    k.center[c] = static_cast<Wide<T>>(convert<double>(x[channels.at(c, 0)]) + off);
    k.factor[c] = factor_of(gamma[c], biased, epsilon);
    k.term[c] = beta[c];
    if (mean) mean[c] = k.center[c];
    if (variance) variance[c] = biased;
  }
}

template <typename T>
__global__ void finish_gradients(Channels channels, double epsilon, const Pair* parts,
                                 const T* variance, T* dgamma, T* dbeta) {
  for (int64_t c = blockIdx.x; c < channels.channels; c += gridDim.x) {
    const Pair sums = sum_chunks(channels, parts, c);
    if (threadIdx.x > 0) continue;
    dgamma[c] = static_cast<T>(sums.b * inverse_of(static_cast<double>(variance[c]), epsilon));
    dbeta[c] = static_cast<T>(sums.a);
  }
}

/// Vectors along the channels.
template <typename T>
struct Operands {
  const T *gamma, *beta, *mean, *variance;
  const T *dgamma, *dbeta;  // used only by the gradient, otherwise null
};

/// Computes the constants of each channel with one thread per channel.
template <typename T>
__global__ void prepare_channels(Channels channels, double epsilon, Operands<T> from,
                                 PerChannel<T> k) {
  const auto n = static_cast<double>(channels.count());
  for (int64_t c = first_index(); c < channels.channels; c += index_step()) {
    k.center[c] = from.mean[c];
    k.factor[c] = factor_of(from.gamma[c], from.variance[c], epsilon);
    k.term[c] = from.beta[c];
    if (!from.dgamma) continue;
    const double inverse = inverse_of(static_cast<double>(from.variance[c]), epsilon);
    k.mean[c] = static_cast<T>(static_cast<double>(from.dbeta[c]) / n);
    k.slope[c] = static_cast<T>(inverse * static_cast<double>(from.dgamma[c]) / n);
  }
}

/// Adjacent elements that are loaded and stored together.
template <typename T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Several {
  static constexpr int kSize = kCount;
  T values[kCount];

  static __device__ Several at(const T* from, int64_t i) {
    return *reinterpret_cast<const Several*>(from + i);
  }
};

/// Normalizes the elements of a piece, which belong to kChannels successive channels (one element
/// each) or all to one channel.
template <typename T>
struct Normalize {
  const T *x, *residual;  // null if there is no residual
  PerChannel<Wide<T>> k;
  bool rectifies;

  template <int kChannels>
  struct Own {
    Several<Wide<T>, kChannels> center, factor, term;
  };
  template <int kChannels>
  __device__ Own<kChannels> channels(int64_t c) const {
    using Vectors = Several<Wide<T>, kChannels>;
    return {Vectors::at(k.center, c), Vectors::at(k.factor, c), Vectors::at(k.term, c)};
  }
  template <int kChannels, typename Piece>
  __device__ Piece results(const Own<kChannels>& own, int64_t first) const {
    Piece piece = Piece::at(x, first);
    const Piece added = residual ? Piece::at(residual, first) : Piece{};
    for_elements<Piece::kSize>([&](int i) {
      const int c = i % kChannels;
      const Line<Wide<T>> line{own.center.values[c], own.factor.values[c], own.term.values[c]};
      Wide<T> y = line(convert<Wide<T>>(piece.values[i]));
      if (residual) y += convert<Wide<T>>(added.values[i]);
      piece.values[i] = convert<T>(rectifies ? functions::Relu<Wide<T>>{}(y) : y);
    });
    return piece;
  }
};

template <typename T>
struct Differentiate {
  const T *dy, *x;
  PerChannel<Wide<T>> k;
  bool rectified;

  template <int kChannels>
  struct Own {
    Several<Wide<T>, kChannels> center, factor, term, mean, slope;
  };
  template <int kChannels>
  __device__ Own<kChannels> channels(int64_t c) const {
    using Vectors = Several<Wide<T>, kChannels>;
    return {Vectors::at(k.center, c), Vectors::at(k.factor, c), Vectors::at(k.term, c),
            Vectors::at(k.mean, c), Vectors::at(k.slope, c)};
  }
  template <int kChannels, typename Piece>
  __device__ Piece results(const Own<kChannels>& own, int64_t first) const {
    Piece piece = Piece::at(dy, first);
    const Piece xs = Piece::at(x, first);
    for_elements<Piece::kSize>([&](int i) {
      const int c = i % kChannels;
      const auto from = convert<Wide<T>>(xs.values[i]);
      const Line<Wide<T>> line{own.center.values[c], own.factor.values[c], own.term.values[c]};
      const Wide<T> g = passed(rectified, line, convert<Wide<T>>(piece.values[i]), from);
      piece.values[i] = convert<T>(
          line.factor * (g - own.mean.values[c] - (from - line.center) * own.slope.values[c]));
    });
    return piece;
  }
};

/// Computes the n pieces of the result, with kCount elements in kChannels channels each. A thread
/// keeps the constants of its channels in registers.
template <typename T, int kCount, int kChannels, typename F>
__global__ void apply(Channels channels, T* out, int64_t n, F f) {
  using Piece = Several<T, kCount>;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const auto own = f.template channels<kChannels>(channels.channel_of(i * kCount));
    reinterpret_cast<Piece*>(out)[i] = f.template results<kChannels, Piece>(own, i * kCount);
  }
}

/// The geometry of a step, its workspace (partial sums, then vectors of C elements), and its
/// launches.
class Normalization {
 public:
  explicit Normalization(const Request& request)
      : epsilon_(attribute<double>(request, "epsilon")),
        element_(size_of(sum_of(request.inputs[0].dtype))) {
    const Shape& x = request.inputs[0].shape;
    const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
    channels_ = {x.elements(0, axis), x[axis], x.elements(axis + 1, x.rank())};
    // Enough blocks to fill a large device, but at least kLeast terms per chunk.
    constexpr int64_t kFull = 1024, kLeast = 2048;
    const int64_t blocks =
        channels_.by_columns ? ceil_div(channels_.channels, kColumns) : channels_.channels;
    const int64_t most = std::max<int64_t>(1, ceil_div(kFull, blocks));
    channels_.chunk = std::max(kLeast, ceil_div(channels_.count(), most));
    channels_.chunks = ceil_div(channels_.count(), channels_.chunk);
  }

  const Channels& channels() const { return channels_; }
  double epsilon() const { return epsilon_; }
  size_t workspace() const {
    return parts_bytes() + 5 * static_cast<size_t>(channels_.channels) * element_;
  }
  Pair* parts(std::byte* workspace) const { return reinterpret_cast<Pair*>(workspace); }
  template <typename T>
  PerChannel<T> per_channel(std::byte* workspace) const {
    T* first = reinterpret_cast<T*>(workspace + parts_bytes());
    const int64_t n = channels_.channels;
    return {first, first + n, first + 2 * n, first + 3 * n, first + 4 * n};
  }

  template <typename Terms>
  void sum(const LaunchState& state, const Terms& terms, Pair* parts) const {
    const auto chunks = static_cast<unsigned>(channels_.chunks);
    if (channels_.by_columns)
      launch(state, "batch_norm_sums",
             {{blocks_for(ceil_div(channels_.channels, kColumns)), chunks},
              {kColumns, kRows},
              kColumns * kRows * sizeof(Pair)},
             sum_columns<Terms>, channels_, terms, parts);
    else
      launch(
          state, "batch_norm_sums",
          {{blocks_for(channels_.channels), chunks}, {kThreads}, kThreads / kWarp * sizeof(double)},
          sum_runs<Terms>, channels_, terms, parts);
  }

  LaunchShape warps() const { return {{blocks_for(channels_.channels)}, {kWarp}}; }

  template <typename T>
  PerChannel<T> prepare(const LaunchState& state, const Operands<T>& from,
                        std::byte* workspace) const {
    const PerChannel<T> k = per_channel<T>(workspace);
    launch(state, "batch_norm_channels", shape_for(channels_.channels), prepare_channels<T>,
           channels_, epsilon_, from, k);
    return k;
  }

  template <typename T, typename F>
  void run(const LaunchState& state, T* out, const F& f) const {
    constexpr int kMost = Vector<T>::kCount;
    if (channels_.inner % kMost == 0)
      run_pieces<T, kMost, 1>(state, out, f);
    else if (channels_.inner == 1 && channels_.channels % kMost == 0)
      run_pieces<T, kMost, kMost>(state, out, f);
    else
      run_pieces<T, 1, 1>(state, out, f);
  }

 private:
  template <typename T, int kCount, int kChannels, typename F>
  void run_pieces(const LaunchState& state, T* out, const F& f) const {
    const int64_t n = channels_.count() * channels_.channels / kCount;
    launch(state, "batch_norm", shape_for(n), apply<T, kCount, kChannels, F>, channels_, out, n, f);
  }
  size_t parts_bytes() const {
    return static_cast<size_t>(channels_.channels * channels_.chunks) * sizeof(Pair);
  }

  Channels channels_;
  double epsilon_;
  size_t element_;
};

/// Returns a kernel whose launch is body(T{}, n, buffers, state).
template <typename Body>
Kernel for_step(const Request& request, Body body) {
  const Normalization n(request);
  return visit_any_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[n, body](const Buffers& b, const LaunchState& state) { body(T{}, n, b, state); },
            n.workspace()};
  });
}

/// Throws if the step is synchronized, because no CUDA kernel exchanges statistics between ranks.
void refuse_synchronized(const Request& request) {
  if (request.shards > 1 && request.step.attributes.has("synchronized"))
    throw RunError("synchronized batch normalization is not supported on GPUs",
                   "write `synchronized: false`, or use --device cpu");
}

/// The ops that follow the normalization in the same kernel: a sum, a relu, or both.
struct Following {
  bool sums, rectifies;

  explicit Following(const Request& request)
      : sums(!request.step.epilogue.empty() && request.step.epilogue[0].op == ops::kAdd),
        rectifies(request.step.epilogue.size() > (sums ? 1 : 0)) {}

  template <typename T>
  Normalize<T> after(const Buffers& b, const PerChannel<Wide<T>>& k) const {
    const std::byte* residual = sums ? b.epilogue_operands[0][0] : nullptr;
    return {input<T>(b, 0), reinterpret_cast<const T*>(residual), k, rectifies};
  }
};

Kernel prepare_batch_norm(const Request& request) {
  refuse_synchronized(request);
  return for_step(
      request, [following = Following(request)]<typename T>(
                   T, const Normalization& n, const Buffers& b, const LaunchState& state) {
        using W = Wide<T>;
        const T* x = input<T>(b, 0);
        Pair* parts = n.parts(b.workspace);
        const PerChannel<W> k = n.per_channel<W>(b.workspace);
        n.sum(state, Distances<T>{x}, parts);
        launch(state, "batch_norm_moments", n.warps(), finish_moments<T>, n.channels(), n.epsilon(),
               parts, x, input<W>(b, 1), input<W>(b, 2), k, output<W>(b, 1), output<W>(b, 2));
        n.run(state, output<T>(b, 0), following.after<T>(b, k));
      });
}

Kernel prepare_batch_norm_predict(const Request& request) {
  return for_step(request,
                  [following = Following(request)]<typename T>(
                      T, const Normalization& n, const Buffers& b, const LaunchState& state) {
                    using W = Wide<T>;
                    const Operands<W> from{input<W>(b, 1), input<W>(b, 2), input<W>(b, 3),
                                           input<W>(b, 4), nullptr,        nullptr};
                    const PerChannel<W> k = n.prepare(state, from, b.workspace);
                    n.run(state, output<T>(b, 0), following.after<T>(b, k));
                  });
}

Kernel prepare_batch_norm_grad_affine(const Request& request) {
  const bool rectified = attribute<bool>(request, "rectified");
  return for_step(request, [=]<typename T>(T, const Normalization& n, const Buffers& b,
                                           const LaunchState& state) {
    using W = Wide<T>;
    const Operands<W> from{input<W>(b, 2), input<W>(b, 3), input<W>(b, 4),
                           input<W>(b, 5), nullptr,        nullptr};
    const PerChannel<W> k = n.prepare(state, from, b.workspace);
    Pair* parts = n.parts(b.workspace);
    n.sum(state, GradientTerms<T>{input<T>(b, 0), input<T>(b, 1), k, rectified}, parts);
    launch(state, "batch_norm_gradients", n.warps(), finish_gradients<W>, n.channels(), n.epsilon(),
           parts, input<W>(b, 5), output<W>(b, 0), output<W>(b, 1));
  });
}

Kernel prepare_batch_norm_grad(const Request& request) {
  refuse_synchronized(request);
  const bool rectified = attribute<bool>(request, "rectified");
  return for_step(request, [=]<typename T>(T, const Normalization& n, const Buffers& b,
                                           const LaunchState& state) {
    using W = Wide<T>;
    const Operands<W> from{input<W>(b, 2), input<W>(b, 3), input<W>(b, 4),
                           input<W>(b, 5), input<W>(b, 6), input<W>(b, 7)};
    const PerChannel<W> k = n.prepare(state, from, b.workspace);
    n.run(state, output<T>(b, 0), Differentiate<T>{input<T>(b, 0), input<T>(b, 1), k, rectified});
  });
}

}  // namespace

std::span<const KernelEntry> kernels::batch_norm() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "batch_norm",
       .prepare = prepare_batch_norm,
       .order = Order::kOwn,
       .epilogue = TakesEpilogue::kSumRelu,
       .channels_last = ChannelsLast::kAxis},
      {.op = "batch_norm_predict",
       .prepare = prepare_batch_norm_predict,
       .epilogue = TakesEpilogue::kSumRelu,
       .channels_last = ChannelsLast::kAxis},
      {.op = "batch_norm_grad_affine",
       .prepare = prepare_batch_norm_grad_affine,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kAxis},
      {.op = "batch_norm_grad",
       .prepare = prepare_batch_norm_grad,
       .channels_last = ChannelsLast::kAxis},
      {.op = "move_statistics", .prepare_updates = prepare_move_statistics},
  };
  return kKernels;
}

}  // namespace flow::cuda
