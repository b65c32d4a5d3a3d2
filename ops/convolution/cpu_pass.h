// The geometry of a convolution step, a oneDNN primitive for a fixed number of its images, and the
// kernels for float64 and bfloat16 images, which are products of matrices.
#pragma once

#include <dnnl.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

enum class Direction { kForward, kGradData, kGradWeight };

/// The geometry of a convolution step, for any number of images.
struct ConvolutionGeometry {
  Direction direction = Direction::kForward;
  Shape x, y;    // (N, C, H, W), (N, O, H', W')
  Shape weight;  // (O, C/groups, kh, kw)
  Layout x_layout = Layout::kPlain, y_layout = Layout::kPlain;
  int64_t groups = 1;
  std::array<int64_t, 2> strides{}, dilation{};
  std::array<int64_t, 4> padding{};  // top, bottom, left, right
  bool bias = false;                 // forward only: the kernel also adds a bias
};

/// Returns the geometry of a step. REQUIRES: the op is one of the three convolutions.
ConvolutionGeometry convolution_geometry(const Request& request);

/// Returns the number of images per chunk, which depends only on shapes: about a tenth of the
/// images, at most 20 unless that makes more than 32 chunks, and at least as many as justify
/// launching a primitive.
int64_t chunk_images(const ConvolutionGeometry& geometry);

/// An activation of a pass: its layout in the step and its layout in the primitive, which may be
/// equal.
struct Activation {
  int argument = 0;  // a DNNL_ARG_... constant
  bool output = false;
  dnnl::memory::desc given, wanted;
  dnnl::reorder reorder;  // converts between the two layouts if they differ
  bool reordered() const { return given != wanted; }
};

struct ConvolutionPass {
  dnnl::primitive primitive;
  std::array<Activation, 2> activations;
  dnnl::memory::desc weights;     // in the layout that the primitive reads or writes
  dnnl::memory::desc scratchpad;  // one for each thread that runs the pass
  int weights_argument = 0;
  std::string implementation;  // oneDNN's name: "jit:avx512_core"
};

/// Returns the layout of the weights, or of their gradient, in plans.
dnnl::memory::desc plain_weights(const ConvolutionGeometry& geometry);

/// Makes a pass for one thread (REQUIRES: SingleThreadedLibraries). `weights` is their layout if an
/// earlier pass has determined it. Throws a RunError if oneDNN has no implementation.
ConvolutionPass make_convolution_pass(const dnnl::engine& engine,
                                      const ConvolutionGeometry& geometry, int64_t images,
                                      const std::optional<dnnl::memory::desc>& weights);

/// Returns the kernel of a convolution step, or of one of its gradients, with float64 operands in
/// plain layouts.
Kernel double_convolution(const Request& request);

/// Returns the kernel of a convolution step, or of one of its gradients, with bfloat16 operands.
/// The kernel has no launch if float32 is the better choice: for groups, for images that are not
/// channels-last, for the data gradient with strides, and on CPUs that gain nothing.
Kernel low_precision_convolution(const Request& request);

}  // namespace flow::cpu
