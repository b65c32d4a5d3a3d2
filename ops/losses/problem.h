// Connectionist temporal classification as the kernels of all devices compute it, in double, for
// float32 and float64. The states are blank, label 1, blank, label 2, ..., blank. A path goes
// through the frames from state to state: it stays, moves to the next state, or skips the blank
// between two different labels.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace flow::ops {

struct CtcSizes {
  int64_t samples, labels, frames, classes, blank;

  /// Returns the largest number of states of a sample.
  FLOW_HOST_DEVICE int64_t states() const { return 2 * labels + 1; }
};

template <typename Request>
CtcSizes ctc_sizes(const Request& request) {
  const auto &labels = request.inputs[0].shape, &log_probs = request.inputs[1].shape;
  return {log_probs[0], labels[1], log_probs[1], log_probs[2],
          request.step.attributes.template get<int64_t>("blank")};
}

inline constexpr double kNoPath = -__builtin_inf();

/// Returns log(exp(a) + exp(b) + exp(c)).
FLOW_HOST_DEVICE inline double log_sum(double a, double b, double c) {
  if (a == kNoPath && b == kNoPath && c == kNoPath) return kNoPath;
  double most = a < b ? b : a;
  if (most < c) most = c;
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

/// Clamps a length to [0, most]. A length out of range stops the run, but until then the kernel
/// must not read out of bounds.
FLOW_HOST_DEVICE inline int64_t usable_length(int64_t length, int64_t most) {
  return length < 0 ? 0 : length > most ? most : length;
}

/// Returns the class of a label, or the blank if the label is out of range, for the same reason.
FLOW_HOST_DEVICE inline int64_t usable_class(int64_t label, const CtcSizes& sizes) {
  return label >= 0 && label < sizes.classes ? label : sizes.blank;
}

/// One sample. class_of[s] is the class of state s.
template <typename T, typename Classes>
struct CtcSample {
  const T* log_probs;  // (frames, classes)
  int64_t classes, frames, states;
  Classes class_of;

  /// Returns the logarithm of the probability of all paths up to frame t that end in state s.
  /// `before` contains these logarithms for the previous frame.
  FLOW_HOST_DEVICE double up_to(int64_t t, int64_t s, const double* before) const {
    if (t == 0) return s < 2 ? at(0, s) : kNoPath;
    return at(t, s) + log_sum(before[s], s > 0 ? before[s - 1] : kNoPath,
                              skips_to(s) ? before[s - 2] : kNoPath);
  }
  /// Returns the logarithm of the probability of all continuations of paths after frame t from
  /// state s. `after` contains these logarithms for the next frame.
  FLOW_HOST_DEVICE double behind(int64_t t, int64_t s, const double* after) const {
    if (t + 1 == frames) return s >= states - 2 ? 0 : kNoPath;
    const double stays = after[s] + at(t + 1, s);
    const double moves = s + 1 < states ? after[s + 1] + at(t + 1, s + 1) : kNoPath;
    const bool skips = s + 2 < states && skips_to(s + 2);
    return log_sum(stays, moves, skips ? after[s + 2] + at(t + 1, s + 2) : kNoPath);
  }
  /// Returns the loss from the results of up_to for the last frame. Without frames, only the empty
  /// path exists.
  FLOW_HOST_DEVICE double loss(const double* last) const {
    if (frames == 0) return states == 1 ? 0 : -kNoPath;
    return -log_sum(last[states - 1], states > 1 ? last[states - 2] : kNoPath, kNoPath);
  }

 private:
  FLOW_HOST_DEVICE double at(int64_t t, int64_t s) const {
    return static_cast<double>(log_probs[t * classes + class_of[s]]);
  }
  FLOW_HOST_DEVICE bool skips_to(int64_t s) const {
    return s > 1 && s % 2 == 1 && class_of[s] != class_of[s - 2];
  }
};

}  // namespace flow::ops
