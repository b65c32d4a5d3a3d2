// Random numbers: functions of (seed, entry, step, element), in arithmetic that devices share.
#include "runtime/base/element_types.h"
#include "runtime/base/random_values.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/random_words.h"

namespace flow::cpu::fast {
namespace {

// values[i] of kRandomWords words, in whole blocks.

FLOW_VECTORIZED void draw_values(const NormalDraw& draw, const uint32_t* words, double* values) {
  const double mean = draw.mean, stddev = draw.stddev;
#pragma omp simd
  for (int64_t i = 0; i < kRandomWords; i += 2) {
    const OnCircle z = normals_of(words[i], words[i + 1]);
    values[i] = mean + stddev * z.cosine;
    values[i + 1] = mean + stddev * z.sine;
  }
}

FLOW_VECTORIZED void draw_values(const UniformDraw& draw, const uint32_t* words, double* values) {
  const double minimum = draw.minimum, range = draw.range;
#pragma omp simd
  for (int64_t i = 0; i < kRandomWords; ++i) values[i] = minimum + range * unit_of(words[i]);
}

FLOW_VECTORIZED void draw_values(const GumbelDraw& /*draw*/, const uint32_t* words,
                                 double* values) {
#pragma omp simd
  for (int64_t i = 0; i < kRandomWords; ++i) values[i] = gumbel_of(words[i]);
}

template <typename Draw>
Kernel prepare_draw(const Request& request, const Draw& draw) {
  Kernel kernel;
  visit_float(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [draw, threads = request.threads, n = request.outputs[0].shape.elements(),
                     source = random_words_of(request)](const Buffers& buffers,
                                                        const CallState& state) {
      T* y = output<T>(buffers, 0);
      for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
        double values[kRandomWords];
        for_random_words(source, state, first, end,
                         [&](int64_t i, const uint32_t* words, int64_t skipped, int64_t count) {
                           draw_values(draw, words, values);
                           for (int64_t k = 0; k < count; ++k)
                             y[i + k] = static_cast<T>(values[skipped + k]);
                         });
      });
    };
  });
  return kernel;
}

Kernel prepare_random_normal(const Request& request) {
  return prepare_draw(request, NormalDraw{number(request, "mean"), number(request, "stddev")});
}

Kernel prepare_random_uniform(const Request& request) {
  const double minimum = number(request, "minimum");
  return prepare_draw(request, UniformDraw{minimum, number(request, "maximum") - minimum});
}

Kernel prepare_gumbel(const Request& request) { return prepare_draw(request, GumbelDraw{}); }

template <typename P>
Launch bernoulli_of(const Request& request) {
  Launch launch;
  visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
              source = random_words_of(request)](const Buffers& buffers, const CallState& state) {
      const P* p = input<P>(buffers, 0);
      T* y = output<T>(buffers, 0);
      for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
        for_random_words(source, state, first, end,
                         [&](int64_t i, const uint32_t* words, int64_t skipped, int64_t count) {
                           for (int64_t k = 0; k < count; ++k)
                             y[i + k] = convert<T>(happens(p[i + k], words[skipped + k]));
                         });
      });
    };
  });
  return launch;
}

Kernel prepare_bernoulli(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype,
              [&]<typename P>(P) { kernel.launch = bernoulli_of<P>(request); });
  return kernel;
}

/// Sums pieces of all rows, then those of each row, then looks for what the words stand for.
template <typename T>
Launch draw_indices_of(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const int64_t classes = x.shape[x.shape.rank() - 1], rows = x.shape.elements() / classes;
  const int64_t pieces = ceil_div(classes, kWeightsOfPiece), samples = y.shape.elements() / rows;
  return [=, threads = request.threads, source = random_words_of(request)](const Buffers& buffers,
                                                                           const CallState& state) {
    const T* weights = input<T>(buffers, 0);
    auto* ends = reinterpret_cast<double*>(buffers.workspace);
    for_pieces(threads, rows * pieces, kPiece / kWeightsOfPiece, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i)
        ends[i] = sum_of_piece(weights + i / pieces * classes, classes, i % pieces);
    });
    for_pieces(threads, rows, std::max<int64_t>(1, kPiece / pieces),
               [&](int64_t first, int64_t end) {
                 for (int64_t r = first; r < end; ++r) add_pieces(ends + r * pieces, pieces);
               });
    for_pieces(threads, rows * samples, kRandomWords, [&](int64_t first, int64_t end) {
      for_random_words(source, state, first, end,
                       [&](int64_t i, const uint32_t* words, int64_t skipped, int64_t count) {
                         for (int64_t k = 0; k < count; ++k) {
                           const int64_t row = (i + k) / samples;
                           output<int64_t>(buffers, 0)[i + k] =
                               drawn_index(weights + row * classes, classes, ends + row * pieces,
                                           words[skipped + k]);
                         }
                       });
    });
  };
}

Kernel prepare_draw_indices(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int64_t classes = x[x.rank() - 1];
  Kernel kernel;
  kernel.workspace =
      static_cast<size_t>(x.elements() / classes * ceil_div(classes, kWeightsOfPiece)) *
      sizeof(double);
  visit_float(request.inputs[0].dtype,
              [&]<typename T>(T) { kernel.launch = draw_indices_of<T>(request); });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> random_draws() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "random_normal", .prepare = prepare_random_normal, .float64 = prepare_random_normal},
      {.op = "random_uniform",
       .prepare = prepare_random_uniform,
       .float64 = prepare_random_uniform},
      {.op = "gumbel", .prepare = prepare_gumbel, .float64 = prepare_gumbel},
      {.op = "bernoulli", .prepare = prepare_bernoulli, .float64 = prepare_bernoulli},
      {.op = "draw_indices", .prepare = prepare_draw_indices, .float64 = prepare_draw_indices},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
