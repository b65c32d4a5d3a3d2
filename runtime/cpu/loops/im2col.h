// The patches of images under a sliding kernel, as rows of a matrix.
#pragma once

#include <array>
#include <cstdint>

namespace flow::cpu {

/// Images [H, W, C] of 16-bit elements, and a kernel that slides over them.
struct PatchGeometry {
  int64_t height, width, channels;
  int64_t rows, columns;  // of patches: H', W'
  std::array<int64_t, 2> kernel, strides, dilation;
  std::array<int64_t, 2> before;  // padding on top and on the left

  int64_t pixels() const { return height * width * channels; }        // elements of an image
  int64_t patches() const { return rows * columns; }                  // of an image
  int64_t patch() const { return kernel[0] * kernel[1] * channels; }  // elements of one
  /// Is every patch a pixel, so that the image is the matrix?
  bool trivial() const {
    return kernel[0] * kernel[1] == 1 && strides[0] * strides[1] == 1 && before[0] == 0 &&
           before[1] == 0 && rows == height && columns == width;
  }
};

/// Cuts one image at a time.
class PatchCutter {
 public:
  explicit PatchCutter(const PatchGeometry& geometry);

  /// Elements that the padded image takes, and those by which a matrix of patches may be overrun.
  int64_t scratch() const { return padded_rows_ * padded_columns_ * geometry_.channels + kSlack; }
  static constexpr int64_t kSlack = 32;

  /// to[H' W', kh kw C] = the patches of the image, padded with 0.
  void cut(const uint16_t* image, uint16_t* scratch, uint16_t* to) const;

 private:
  void pad(const uint16_t* image, uint16_t* padded) const;

  PatchGeometry geometry_;
  int64_t padded_rows_, padded_columns_;
};

}  // namespace flow::cpu
