// Connectionist temporal classification, of float32 and of float64. All is computed in double.
// States are blank, label 1, blank, label 2, ..., blank. A path goes through the frames from state
// to state: it stays, moves on, or skips the blank between two different labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/core/cpu_labels.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

struct CtcSizes {
  int64_t samples, labels, frames, classes, blank;

  /// Most states of a sample.
  int64_t states() const { return 2 * labels + 1; }
};

inline constexpr double kNoPath = -std::numeric_limits<double>::infinity();

/// log(exp(a) + exp(b) + exp(c))
inline double log_sum(double a, double b, double c) {
  if (a == kNoPath && b == kNoPath && c == kNoPath) return kNoPath;
  const double most = std::max({a, b, c});
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

template <typename T>
class CtcSample {
 public:
  /// `class_of`: room for the classes of all states. label(i): that of position i.
  template <typename Label>
  CtcSample(const T* log_probs, const CtcSizes& sizes, int64_t labels, int64_t frames,
            int64_t* class_of, Label label)
      : log_probs_(log_probs),
        classes_(sizes.classes),
        frames_(std::clamp<int64_t>(frames, 0, sizes.frames)),
        states_(2 * std::clamp<int64_t>(labels, 0, sizes.labels) + 1),
        class_of_(class_of) {
    for (int64_t s = 0; s < states_; ++s) {
      const int64_t found = s % 2 == 0 ? sizes.blank : label(s / 2);
      // One out of range stops the run; it must not be read with.
      class_of_[s] = found >= 0 && found < classes_ ? found : sizes.blank;
    }
  }

  int64_t frames() const { return frames_; }
  int64_t states() const { return states_; }
  int64_t class_of(int64_t state) const { return class_of_[state]; }

  /// Logarithms of the probabilities of all paths up to frame 0 that end in each state.
  void begin(double* row) const {
    std::fill_n(row, states_, kNoPath);
    for (int64_t s = 0; s < std::min<int64_t>(states_, 2); ++s) row[s] = at(0, s);
  }
  /// The same up to frame t from those of the frame before; may be in place.
  void advance(int64_t t, const double* before, double* row) const {
    for (int64_t s = states_; s-- > 0;)
      row[s] = at(t, s) + log_sum(before[s], s > 0 ? before[s - 1] : kNoPath,
                                  skips_to(s) ? before[s - 2] : kNoPath);
  }
  /// From those of the last frame.
  double loss(const double* row) const {
    const double other = states_ > 1 ? row[states_ - 2] : kNoPath;
    return -log_sum(row[states_ - 1], other, kNoPath);
  }
  /// Without frames there is the empty path.
  double loss_without_frames() const { return states_ == 1 ? 0 : -kNoPath; }

  /// Logarithms of the probabilities of all ends of paths behind the last frame, from each state.
  void end(double* row) const {
    for (int64_t s = 0; s < states_; ++s) row[s] = s >= states_ - 2 ? 0 : kNoPath;
  }
  /// The same behind frame t from those of the frame after it, in place.
  void retreat(int64_t t, double* row) const {
    for (int64_t s = 0; s < states_; ++s) {
      const auto through = [&](int64_t next) { return row[next] + at(t + 1, next); };
      row[s] = log_sum(through(s), s + 1 < states_ ? through(s + 1) : kNoPath,
                       s + 2 < states_ && skips_to(s + 2) ? through(s + 2) : kNoPath);
    }
  }

 private:
  double at(int64_t t, int64_t s) const {
    return static_cast<double>(log_probs_[t * classes_ + class_of_[s]]);
  }
  bool skips_to(int64_t s) const { return s > 1 && s % 2 == 1 && class_of_[s] != class_of_[s - 2]; }

  const T* log_probs_;
  int64_t classes_, frames_, states_;
  int64_t* class_of_;
};

/// The loss of a sample. `row`: room for its states.
template <typename T>
double ctc_loss(const CtcSample<T>& sample, double* row) {
  if (sample.frames() == 0) return sample.loss_without_frames();
  sample.begin(row);
  for (int64_t t = 1; t < sample.frames(); ++t) sample.advance(t, row, row);
  return sample.loss(row);
}

/// The gradient of a sample's log-probabilities, (frames of the batch, classes), which are zeros
/// so far. `table`: room for the states of all frames and one more.
template <typename T>
void ctc_gradient(const CtcSample<T>& sample, int64_t classes, double dy, double* table, T* dx) {
  const int64_t frames = sample.frames(), states = sample.states();
  if (frames == 0) return;
  sample.begin(table);
  for (int64_t t = 1; t < frames; ++t)
    sample.advance(t, table + (t - 1) * states, table + t * states);
  const double loss = sample.loss(table + (frames - 1) * states);
  if (std::isinf(loss)) return;
  double* behind = table + frames * states;
  sample.end(behind);
  for (int64_t t = frames; t-- > 0;) {
    if (t + 1 < frames) sample.retreat(t, behind);
    for (int64_t s = 0; s < states; ++s) {
      T& d = dx[t * classes + sample.class_of(s)];
      d = static_cast<T>(static_cast<double>(d) -
                         dy * std::exp(table[t * states + s] + behind[s] + loss));
    }
  }
}

/// What both kernels read.
struct CtcOperands {
  CtcSizes sizes;
  DType labels, label_lengths, input_lengths;

  explicit CtcOperands(const Request& request)
      : sizes{request.inputs[1].shape[0], request.inputs[0].shape[1], request.inputs[1].shape[1],
              request.inputs[1].shape[2], request.step.attributes.get<int64_t>("blank")},
        labels(request.inputs[0].dtype),
        label_lengths(request.inputs[2].dtype),
        input_lengths(request.inputs[3].dtype) {}

  /// How many threads work at once, each with memory of its own.
  int64_t workers(int threads) const { return std::min<int64_t>(threads, sizes.samples); }

  template <typename T>
  CtcSample<T> sample(const Buffers& buffers, int64_t i, int64_t* class_of) const {
    return {input<T>(buffers, 1) + i * sizes.frames * sizes.classes,
            sizes,
            integer_at(label_lengths, buffers.inputs[2], i),
            integer_at(input_lengths, buffers.inputs[3], i),
            class_of,
            [&](int64_t k) { return integer_at(labels, buffers.inputs[0], i * sizes.labels + k); }};
  }
};

template <typename T>
Kernel ctc_kernel(const Request& request, int threads) {
  const CtcOperands operands(request);
  const int64_t states = operands.sizes.states();
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(operands.workers(threads) * states * 2) * sizeof(double);
  kernel.launch =
      [=, labels = LabelCheck(request, request.inputs[0], operands.sizes.classes),
       label_lengths = LabelCheck(request, request.inputs[2], operands.sizes.labels + 1),
       input_lengths = LabelCheck(request, request.inputs[3], operands.sizes.frames + 1),
       zero = request.step.attributes.get<bool>("zero_infinity")](const Buffers& buffers,
                                                                  const CallState& state) {
        labels.run(buffers.inputs[0], state);
        label_lengths.run(buffers.inputs[2], state);
        input_lengths.run(buffers.inputs[3], state);
        parallel_for(threads, operands.sizes.samples, [&](int64_t i, int worker) {
          double* row = reinterpret_cast<double*>(buffers.workspace) + worker * states * 2;
          auto* classes = reinterpret_cast<int64_t*>(row + states);
          const double loss = ctc_loss(operands.sample<T>(buffers, i, classes), row);
          output<T>(buffers, 0)[i] = static_cast<T>(zero && std::isinf(loss) ? 0 : loss);
        });
      };
  return kernel;
}

template <typename T>
Kernel ctc_grad_kernel(const Request& request, int threads) {
  const CtcOperands operands(request);
  const int64_t states = operands.sizes.states(), frames = operands.sizes.frames;
  const int64_t room = states * (frames + 2);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(operands.workers(threads) * room) * sizeof(double);
  kernel.launch = [=](const Buffers& buffers, const CallState&) {
    parallel_for(threads, operands.sizes.samples, [&](int64_t i, int worker) {
      double* table = reinterpret_cast<double*>(buffers.workspace) + worker * room;
      auto* classes = reinterpret_cast<int64_t*>(table + states * (frames + 1));
      const int64_t elements = frames * operands.sizes.classes;
      T* dx = output<T>(buffers, 0) + i * elements;
      std::fill_n(dx, elements, T{0});
      ctc_gradient(operands.sample<T>(buffers, i, classes), operands.sizes.classes,
                   static_cast<double>(input<T>(buffers, 4)[i]), table, dx);
    });
  };
  return kernel;
}

}  // namespace flow::cpu
