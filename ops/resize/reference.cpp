// Reference kernels of resize and of its gradient, which compute the weight of every pair of
// pixels.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// An element and its weight.
struct Share {
  int64_t place;
  double weight;
};

/// One axis of a resize from `in` to `out` elements.
class Interpolation {
 public:
  Interpolation(const Request& request, int64_t in, int64_t out)
      : mode_(text(request, "mode")),
        coordinates_(text(request, "coordinates")),
        rounding_(text(request, "rounding")),
        cubic_(number(request, "cubic_coefficient")),
        excludes_(request.step.attributes.get<bool>("exclude_outside")),
        in_(in),
        out_(out),
        scale_(number(request, "scale")) {}

  /// Returns, for each element of y, the elements of x that contribute to it; with `back`, returns
  /// for each element of x the elements of y to which it contributes.
  std::vector<std::vector<Share>> shares(bool back) const {
    std::vector<std::vector<Share>> all(static_cast<size_t>(back ? in_ : out_));
    for (int64_t i = 0; i < out_; ++i) {
      const double at = position(i);
      const auto center = static_cast<int64_t>(std::floor(at));
      double sum = 0;
      for (int64_t place = center - 1; place <= center + 2; ++place)
        sum += counts(place) ? weight(at, place) : 0;
      for (int64_t place = center - 1; place <= center + 2; ++place) {
        const int64_t j = std::clamp<int64_t>(place, 0, in_ - 1);
        const double share = weight(at, place) / (excludes_ ? sum : 1);
        if (!counts(place) || share == 0) continue;
        all[static_cast<size_t>(back ? j : i)].push_back({back ? i : j, share});
      }
    }
    return all;
  }

 private:
  static const std::string& text(const Request& request, std::string_view name) {
    return request.step.attributes.get<std::string>(name);
  }

  bool counts(int64_t place) const { return !excludes_ || (0 <= place && place < in_); }

  double position(int64_t i) const {
    const auto in = static_cast<double>(in_), out = static_cast<double>(out_);
    const auto at = static_cast<double>(i);
    if (coordinates_ == "align_corners") return out_ == 1 ? 0 : at * (in - 1) / (out - 1);
    const double shift = coordinates_ == "half_pixel" ? 0.5 : 0;
    return (scale_ > 0 ? (at + shift) / scale_ : (at + shift) * in / out) - shift;
  }

  double nearest(double at) const {
    const double below = std::floor(at), rest = at - below;
    if (rounding_ == "floor") return below;
    if (rounding_ == "ceil") return rest > 0 ? below + 1 : below;
    if (rest == 0.5) return rounding_ == "round_prefer_ceil" ? below + 1 : below;
    return rest > 0.5 ? below + 1 : below;
  }

  double weight(double at, int64_t place) const {
    const auto p = static_cast<double>(place);
    if (mode_ == "nearest") return p == nearest(at) ? 1 : 0;
    const double d = std::abs(p - at), a = cubic_;
    if (mode_ == "bilinear") return std::max(0.0, 1 - d);
    if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
  }

  std::string mode_, coordinates_, rounding_;
  double cubic_;
  bool excludes_;
  int64_t in_, out_;
  double scale_;
};

/// Resizes planes of x to planes of y or, with `back`, computes the gradient of x from the gradient
/// of y.
Kernel prepare(const Request& request, const Shape& x, const Shape& y, bool back) {
  const Interpolation down(request, x[2], y[2]), across(request, x[3], y[3]);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rows = down.shares(back), columns = across.shares(back), planes = x[0] * x[1],
                     plane_size = back ? y[2] * y[3] : x[2] * x[3],
                     line_size = back ? y[3] : x[3]](const Buffers& buffers, const CallState&) {
      T* out = output<T>(buffers, 0);
      for (int64_t plane = 0; plane < planes; ++plane) {
        for (const std::vector<Share>& row : rows) {
          for (const std::vector<Share>& column : columns) {
            double sum = 0;
            for (const Share& r : row)
              for (const Share& c : column)
                sum += r.weight * c.weight *
                       double_at<T>(buffers, 0, plane * plane_size + r.place * line_size + c.place);
            *out++ = static_cast<T>(sum);
          }
        }
      }
    };
  });
  return kernel;
}

Kernel prepare_resize(const Request& request) {
  return prepare(request, request.inputs[0].shape, request.outputs[0].shape, false);
}

Kernel prepare_resize_grad(const Request& request) {
  return prepare(request, request.outputs[0].shape, request.inputs[0].shape, true);
}

}  // namespace

std::span<const KernelEntry> resize() {
  static constexpr KernelEntry kKernels[] = {
      {"resize", prepare_resize},
      {"resize_grad", prepare_resize_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
