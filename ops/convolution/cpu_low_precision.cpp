// Convolutions of 16-bit images as products with matrices of patches. As in float32, the images of
// a chunk depend only on shapes, each chunk runs on one thread, and the weight gradients of chunks
// are summed in order. The patches of a few images form a matrix that stays in the cache and is
// multiplied by the weights or by the gradient.
//   forward: y (px, O) = patches(x) (px, kh kw C) W (kh kw C, O)
//   data:    dx (px, C) = patches(dy) (px, kh kw O) W' (kh kw O, C), with the kernel reversed
//   weight:  dW (kh kw C, O) = patches(x)^T dy (px, O)
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "ops/convolution/cpu_pass.h"
#include "ops/core/cpu_epilogue.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/low_precision_products.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {
namespace {

/// Images (H, W, C) of 16-bit elements, and a kernel that slides over them.
struct PatchGeometry {
  int64_t height, width, channels;
  int64_t rows, columns;  // rows and columns of patches: H', W'
  std::array<int64_t, 2> kernel, strides, dilation;
  std::array<int64_t, 2> before;  // padding at the top and on the left

  int64_t pixels() const { return height * width * channels; }        // elements of an image
  int64_t patches() const { return rows * columns; }                  // patches of an image
  int64_t patch() const { return kernel[0] * kernel[1] * channels; }  // elements of a patch
  /// Returns true if every patch is a single pixel, so that the image itself is the matrix.
  bool trivial() const {
    return kernel[0] * kernel[1] == 1 && strides[0] * strides[1] == 1 && before[0] == 0 &&
           before[1] == 0 && rows == height && columns == width;
  }
};

/// The number of elements that may be written after the end of a matrix of patches.
constexpr int64_t kPatchSlack = 32;

/// Copies n elements, and up to 31 more, which avoids a loop for the tail.
[[gnu::always_inline]] inline void copy_run(const uint16_t* from, uint16_t* to, int64_t n) {
  for (int64_t i = 0; i < n; i += kPatchSlack)
    std::memcpy(to + i, from + i, kPatchSlack * sizeof(uint16_t));
}

/// Copies the patches of a padded image.
FLOW_VECTORIZED void cut_padded(const PatchGeometry& g, int64_t padded_row, const uint16_t* padded,
                                uint16_t* to) {
  // Without dilation, the pixels of a row of the kernel are adjacent.
  const int64_t runs = g.dilation[1] == 1 ? 1 : g.kernel[1];
  const int64_t run = g.kernel[1] / runs * g.channels;
  for (int64_t i = 0; i < g.rows; ++i) {
    const uint16_t* row = padded + i * g.strides[0] * padded_row;
    for (int64_t j = 0; j < g.columns; ++j, row += g.strides[1] * g.channels)
      for (int64_t k = 0; k < g.kernel[0]; ++k)
        for (int64_t l = 0; l < runs; ++l, to += run)
          copy_run(row + k * g.dilation[0] * padded_row + l * g.dilation[1] * g.channels, to, run);
  }
}

/// Builds the patches of one image at a time.
class PatchCutter {
 public:
  explicit PatchCutter(const PatchGeometry& geometry)
      : geometry_(geometry),
        padded_rows_(padded(0, geometry.height, geometry.rows)),
        padded_columns_(padded(1, geometry.width, geometry.columns)) {}

  /// The number of elements of the padded image.
  int64_t scratch() const {
    return padded_rows_ * padded_columns_ * geometry_.channels + kPatchSlack;
  }

  /// Builds the matrix to (H' W', kh kw C) from the patches of the image, padded with 0.
  void cut(const uint16_t* image, uint16_t* scratch_image, uint16_t* to) const {
    const int64_t row = geometry_.width * geometry_.channels;
    const int64_t padded_row = padded_columns_ * geometry_.channels;
    std::fill_n(scratch_image, scratch(), uint16_t{0});
    uint16_t* inside =
        scratch_image + geometry_.before[0] * padded_row + geometry_.before[1] * geometry_.channels;
    for (int64_t i = 0; i < geometry_.height; ++i)
      std::copy_n(image + i * row, row, inside + i * padded_row);
    cut_padded(geometry_, padded_row, scratch_image, to);
  }

 private:
  /// The extent of the padded image along an axis, computed from the extent of the image and its
  /// number of patches.
  int64_t padded(size_t axis, int64_t extent, int64_t patches) const {
    const PatchGeometry& g = geometry_;
    return std::max(g.before[axis] + extent,
                    (patches - 1) * g.strides[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1);
  }

  PatchGeometry geometry_;
  int64_t padded_rows_, padded_columns_;
};

int64_t aligned(int64_t bytes) { return round_up(bytes, 64); }

/// Returns the geometry of the patches of x, or of dy for the gradient of the data.
PatchGeometry patches_of(const ConvolutionGeometry& g) {
  const bool data = g.direction == Direction::kGradData;
  const Shape &image = data ? g.y : g.x, &result = data ? g.x : g.y;
  PatchGeometry p{image[2],  image[3],   image[1],
                  result[2], result[3],  {g.weight[2], g.weight[3]},
                  g.strides, g.dilation, {g.padding[0], g.padding[2]}};
  for (size_t i = 0; data && i < 2; ++i)
    p.before[i] = p.dilation[i] * (p.kernel[i] - 1) - p.before[i];
  return p;
}

class LowPrecisionConvolution {
 public:
  LowPrecisionConvolution(const Request& request, const ConvolutionGeometry& geometry,
                          const Epilogue& epilogue)
      : geometry_(geometry),
        patches_(patches_of(geometry)),
        cutter_(patches_),
        epilogue_(epilogue),
        threads_(request.threads),
        chunk_(chunk_images(geometry)),
        chunks_(ceil_div(geometry.x[0], chunk_)),
        group_(images_of_a_product()),
        columns_(geometry.direction == Direction::kGradData ? geometry.weight[1]
                                                            : geometry.weight[0]) {}

  /// Prepares the products. Returns false if the library does not support them.
  bool prepare() {
    const int64_t workers = std::min<int64_t>(threads_, chunks_);
    const int64_t patch = patches_.patch();
    const bool weight = geometry_.direction == Direction::kGradWeight;
    products_ = std::make_shared<LowPrecisionProducts>(
        static_cast<int>(workers), weight, false,
        LowPrecisionProducts::Strides{patch, columns_, columns_});
    const int64_t last = geometry_.x[0] - (chunks_ - 1) * chunk_;
    for (const int64_t images :
         {std::min(group_, chunk_), chunk_ % group_, std::min(group_, last), last % group_}) {
      if (images == 0) continue;
      const int64_t pixels = images * patches_.patches();
      const bool added = weight ? products_->add(patch, columns_, pixels) &&
                                      products_->add(patch, columns_, pixels, true)
                                : products_->add(pixels, columns_, patch);
      if (!added) return false;
    }
    plan_workspace(workers);
    return true;
  }

  size_t workspace() const { return static_cast<size_t>(workspace_); }

  void launch(const Buffers& buffers) const {
    const bool weight = geometry_.direction == Direction::kGradWeight;
    if (!weight)
      pack_weights(reinterpret_cast<const uint16_t*>(buffers.inputs[1]),
                   reinterpret_cast<uint16_t*>(buffers.workspace));
    parallel_for(threads_, chunks_, [&](int64_t chunk, int worker) {
      const int64_t first = chunk * chunk_, end = std::min(geometry_.x[0], first + chunk_);
      for (int64_t image = first; image < end; image += group_) {
        const int64_t images = std::min(group_, end - image);
        const uint16_t* patches = cut(buffers, image, images, worker);
        if (weight)
          add_gradient(buffers, patches, image, images, chunk, worker, image > first);
        else
          multiply(buffers, patches, image, images, worker);
      }
    });
    if (weight) sum_gradients(buffers);
  }

 private:
  /// The number of images whose matrix of patches fits in the cache together with the other data.
  int64_t images_of_a_product() const {
    constexpr int64_t kBytes = 1 << 20;
    const int64_t image = patches_.patches() * patches_.patch() * int64_t{sizeof(uint16_t)};
    return std::clamp<int64_t>(kBytes / image, 1, chunk_);
  }

  /// Lays out the workspace as [packed weights, or their gradient for each chunk][for each worker:
  /// a padded image, patches, results].
  void plan_workspace(int64_t workers) {
    const int64_t weights = patches_.patch() * columns_;
    partial_bytes_ = aligned(weights * int64_t{sizeof(float)});
    workers_at_ = geometry_.direction == Direction::kGradWeight
                      ? chunks_ * partial_bytes_
                      : aligned(weights * int64_t{sizeof(uint16_t)});
    scratch_bytes_ = aligned(cutter_.scratch() * int64_t{sizeof(uint16_t)});
    const int64_t elements = group_ * patches_.patches() * patches_.patch() + kPatchSlack;
    patch_bytes_ = patches_.trivial() ? 0 : aligned(elements * int64_t{sizeof(uint16_t)});
    const bool direct = geometry_.direction == Direction::kGradWeight || epilogue_.does_nothing();
    const int64_t results =
        direct ? 0 : aligned(group_ * patches_.patches() * columns_ * int64_t{sizeof(float)});
    worker_bytes_ = scratch_bytes_ + patch_bytes_ + results;
    workspace_ = workers_at_ + workers * worker_bytes_;
  }

  /// Packs weights (O, C, kh, kw) as (kh, kw, C, O), or as (kh, kw, O, C) with the kernel reversed
  /// for the gradient of the data.
  void pack_weights(const uint16_t* weights, uint16_t* packed) const {
    const bool data = geometry_.direction == Direction::kGradData;
    const int64_t filters = geometry_.weight[0], channels = geometry_.weight[1];
    const int64_t places = geometry_.weight[2] * geometry_.weight[3];
    parallel_for(threads_, places, [&](int64_t place, int) {
      const uint16_t* from = weights + (data ? places - 1 - place : place);
      uint16_t* to = packed + place * filters * channels;
      if (data) {
        for (int64_t i = 0; i < filters * channels; ++i) to[i] = from[i * places];
        return;
      }
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t o = 0; o < filters; ++o)
          to[c * filters + o] = from[(o * channels + c) * places];
    });
  }

  const uint16_t* cut(const Buffers& buffers, int64_t first, int64_t images, int worker) const {
    const uint16_t* from =
        reinterpret_cast<const uint16_t*>(buffers.inputs[0]) + first * patches_.pixels();
    if (patches_.trivial()) return from;
    std::byte* own = buffers.workspace + workers_at_ + worker * worker_bytes_;
    auto* patches = reinterpret_cast<uint16_t*>(own + scratch_bytes_);
    for (int64_t i = 0; i < images; ++i)
      cutter_.cut(from + i * patches_.pixels(), reinterpret_cast<uint16_t*>(own),
                  patches + i * patches_.patches() * patches_.patch());
    return patches;
  }

  /// Computes the results of some images from their patches.
  void multiply(const Buffers& buffers, const uint16_t* patches, int64_t first, int64_t images,
                int worker) const {
    const int64_t pixels = images * patches_.patches();
    const int64_t size = epilogue_.low_precision ? sizeof(uint16_t) : sizeof(float);
    std::byte* to = buffers.outputs[0] + first * patches_.patches() * columns_ * size;
    std::byte* own = buffers.workspace + workers_at_ + worker * worker_bytes_;
    float* results = reinterpret_cast<float*>(
        epilogue_.does_nothing() ? to : own + scratch_bytes_ + patch_bytes_);
    products_->run(worker, pixels, columns_, patches_.patch(), patches,
                   reinterpret_cast<const uint16_t*>(buffers.workspace), results);
    if (epilogue_.does_nothing()) return;
    const float* bias =
        epilogue_.bias ? reinterpret_cast<const float*>(buffers.epilogue_operands[0][0]) : nullptr;
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      epilogue_.finish(results + pixel * columns_, bias, to + pixel * columns_ * size, columns_);
  }

  float* partial(const Buffers& buffers, int64_t chunk) const {
    return reinterpret_cast<float*>(buffers.workspace + chunk * partial_bytes_);
  }

  /// Adds the contribution of some images to the gradient of their chunk.
  void add_gradient(const Buffers& buffers, const uint16_t* patches, int64_t first, int64_t images,
                    int64_t chunk, int worker, bool accumulate) const {
    const int64_t pixels = images * patches_.patches();
    const uint16_t* dy = reinterpret_cast<const uint16_t*>(buffers.inputs[1]) +
                         first * patches_.patches() * columns_;
    products_->run(worker, patches_.patch(), columns_, pixels, patches, dy, partial(buffers, chunk),
                   accumulate);
  }

  /// Sums the gradients of the chunks, each (kh kw C, O), in order into (O, C, kh, kw).
  void sum_gradients(const Buffers& buffers) const {
    const int64_t channels = geometry_.weight[1];
    const int64_t places = geometry_.weight[2] * geometry_.weight[3];
    auto* to = reinterpret_cast<float*>(buffers.outputs[0]);
    parallel_for(threads_, patches_.patch(), [&](int64_t row, int) {
      float* sum = partial(buffers, 0) + row * columns_;
      for (int64_t chunk = 1; chunk < chunks_; ++chunk)
        add_to(partial(buffers, chunk) + row * columns_, sum, columns_);
      const int64_t place = row / channels, c = row % channels;
      for (int64_t o = 0; o < columns_; ++o) to[(o * channels + c) * places + place] = sum[o];
    });
  }

  ConvolutionGeometry geometry_;
  PatchGeometry patches_;
  PatchCutter cutter_;
  Epilogue epilogue_;
  int threads_;
  int64_t chunk_, chunks_;  // images that a thread processes at a time; number of chunks
  int64_t group_;           // images per product
  int64_t columns_;         // columns of the product: channels of the result
  int64_t partial_bytes_ = 0, workers_at_ = 0, worker_bytes_ = 0, workspace_ = 0;
  int64_t scratch_bytes_ = 0, patch_bytes_ = 0;
  std::shared_ptr<LowPrecisionProducts> products_;
};

bool lies_channels_last(const TensorDesc& desc) {
  return desc.layout == Layout::kChannelsLast || layouts_coincide(desc.shape);
}

/// Returns true if the activations are channels-last and products of patches support the geometry.
bool is_suitable(const Request& request, const ConvolutionGeometry& g) {
  const bool weight = g.direction == Direction::kGradWeight;
  const TensorDesc& second = weight ? request.inputs[1] : request.outputs[0];
  if (!lies_channels_last(request.inputs[0]) || !lies_channels_last(second)) return false;
  if (g.groups != 1 || g.x.elements() == 0 || g.y.elements() == 0 || g.weight.elements() == 0)
    return false;
  if (g.direction != Direction::kGradData) return true;
  const PatchGeometry patches = patches_of(g);
  return g.strides[0] * g.strides[1] == 1 && patches.before[0] >= 0 && patches.before[1] >= 0;
}

}  // namespace

Kernel low_precision_convolution(const Request& request) {
  const ConvolutionGeometry geometry = convolution_geometry(request);
  if (!multiplies_low_precision(request.inputs[0].dtype) || !is_suitable(request, geometry))
    return {};
  const Epilogue epilogue = Epilogue::of(request, 1);
  LowPrecisionConvolution convolution(request, geometry, epilogue);
  if (!convolution.prepare()) return {};
  Kernel kernel;
  kernel.fused = epilogue.fused;
  kernel.workspace = convolution.workspace();
  kernel.launch = [convolution = std::move(convolution)](const Buffers& b, const CallState&) {
    convolution.launch(b);
  };
  return kernel;
}

}  // namespace flow::cpu
