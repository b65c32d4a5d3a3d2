// A convolution as a step describes it, one oneDNN primitive for a fixed number of images of it,
// and the kernels of float64 and of bfloat16 images, which are products of matrices.
#pragma once

#include <dnnl.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

enum class Direction { kForward, kGradData, kGradWeight };

/// A convolution as a step describes it, for any number of images.
struct ConvolutionGeometry {
  Direction direction = Direction::kForward;
  Shape x, y;    // [N, C, H, W], [N, O, H', W']
  Shape weight;  // [O, C/groups, kh, kw]
  Layout x_layout = Layout::kPlain, y_layout = Layout::kPlain;
  int64_t groups = 1;
  std::array<int64_t, 2> strides{}, dilation{};
  std::array<int64_t, 4> padding{};  // top, bottom, left, right
  bool bias = false;                 // forward: fused
};

/// The step's. REQUIRES: its op is one of the three convolutions.
ConvolutionGeometry convolution_geometry(const Request& request);

/// Images of a chunk, by shapes alone: about a tenth of them, at most 20 while that makes at most
/// 32 chunks, and no fewer than are worth a primitive's launch.
int64_t chunk_images(const ConvolutionGeometry& geometry);

/// An activation of a pass: as the tensor lies, and as the primitive wants it; equal or not.
struct Activation {
  int argument = 0;  // DNNL_ARG_...
  bool output = false;
  dnnl::memory::desc given, wanted;
  dnnl::reorder reorder;  // between them, where they differ
  bool reordered() const { return given != wanted; }
};

struct ConvolutionPass {
  dnnl::primitive primitive;
  std::array<Activation, 2> activations;
  dnnl::memory::desc weights;     // as the primitive wants or makes them
  dnnl::memory::desc scratchpad;  // one for each thread that runs it
  int weights_argument = 0;
  std::string implementation;  // as oneDNN calls it: "jit:avx512_core"
};

/// The weights (or their gradient) as the plan holds them.
dnnl::memory::desc plain_weights(const ConvolutionGeometry& geometry);

/// Made for one thread (REQUIRES: SingleThreadedLibraries). `weights`: their layout, where an
/// earlier pass has settled it. RunError where oneDNN has no implementation.
ConvolutionPass make_convolution_pass(const dnnl::engine& engine,
                                      const ConvolutionGeometry& geometry, int64_t images,
                                      const std::optional<dnnl::memory::desc>& weights);

/// A convolution step, or one of its gradients, of float64 operands in plain layouts.
Kernel double_convolution(const Request& request);

/// A convolution step, or one of its gradients, of bfloat16 operands. Without a launch where this
/// one is better computed in float32: groups, images that do not lie channels-last, the gradient of
/// steps over pixels, a CPU that does not gain.
Kernel low_precision_convolution(const Request& request);

}  // namespace flow::cpu
