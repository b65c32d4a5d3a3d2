// Kernels of random numbers, which are functions of (seed, entry, step, element). All devices share
// their arithmetic.
#include "ops/random_draws/cpu_words.h"
#include "runtime/base/random_values.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu {

// Computes adjacent blocks together, so the rounds are loops over adjacent words.
FLOW_VECTORIZED void draw_words(PhiloxKey key, uint32_t step, uint32_t pass, uint64_t first,
                                int64_t blocks, uint32_t* words) {
  constexpr int64_t kBlocks = kRandomWords / 4;
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int64_t i = 0; i < blocks; ++i) {
    const uint64_t block = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(block);
    c1[i] = static_cast<uint32_t>(block >> 32);
    c2[i] = step;
    c3[i] = pass;
  }
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int64_t i = 0; i < blocks; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[i], p1 = uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ key.low;
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ key.high;
      c1[i] = static_cast<uint32_t>(p1);
      c3[i] = static_cast<uint32_t>(p0);
    }
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  for (int64_t i = 0; i < blocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

namespace fast {
namespace {

// These functions compute values[i] from kRandomWords words, always for whole blocks.

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
  return visit_float(request.outputs[0].dtype, [&]<typename T>(T) {
    return drawing_kernel(request, [draw](const Buffers& buffers, const DrawnWords& drawn) {
      double values[kRandomWords];
      draw_values(draw, drawn.words, values);
      T* y = output<T>(buffers, 0) + drawn.first;
      for (int64_t k = 0; k < drawn.count; ++k) y[k] = static_cast<T>(values[drawn.skipped + k]);
    });
  });
}

Kernel prepare_random_normal(const Request& request) {
  return prepare_draw(request, NormalDraw{number(request, "mean"), number(request, "stddev")});
}

Kernel prepare_random_uniform(const Request& request) {
  const double minimum = number(request, "minimum");
  return prepare_draw(request, UniformDraw{minimum, number(request, "maximum") - minimum});
}

Kernel prepare_gumbel(const Request& request) { return prepare_draw(request, GumbelDraw{}); }

Kernel prepare_bernoulli(const Request& request) {
  const auto trials = [&]<typename P, typename T>(P, T) {
    return drawing_kernel(request, [](const Buffers& buffers, const DrawnWords& drawn) {
      const P* p = input<P>(buffers, 0) + drawn.first;
      T* y = output<T>(buffers, 0) + drawn.first;
      for (int64_t k = 0; k < drawn.count; ++k) y[k] = convert<T>(happens(p[k], drawn.own()[k]));
    });
  };
  return visit_float(request.inputs[0].dtype, [&](auto p) {
    return visit_dtype(request.outputs[0].dtype, [&](auto y) { return trials(p, y); });
  });
}

/// Sums the pieces of all rows, then accumulates the pieces of each row, then finds the index that
/// each word selects.
template <typename T>
Launch draw_indices_of(const Request& request, const ops::WeightRows& sizes) {
  return [=, threads = request.threads, source = ops::word_source(request)](
             const Buffers& buffers, const CallState& state) {
    const T* weights = input<T>(buffers, 0);
    auto* ends = reinterpret_cast<double*>(buffers.workspace);
    for_pieces(threads, sizes.rows * sizes.pieces, kPiece / kWeightsOfPiece,
               [&](int64_t first, int64_t end) {
                 for (int64_t i = first; i < end; ++i)
                   ends[i] = sum_of_piece(weights + i / sizes.pieces * sizes.classes, sizes.classes,
                                          i % sizes.pieces);
               });
    for_pieces(threads, sizes.rows, std::max<int64_t>(1, kPiece / sizes.pieces),
               [&](int64_t first, int64_t end) {
                 for (int64_t r = first; r < end; ++r)
                   add_pieces(ends + r * sizes.pieces, sizes.pieces);
               });
    const auto look_up = [&](const DrawnWords& drawn) {
      for (int64_t k = 0; k < drawn.count; ++k) {
        const int64_t i = drawn.first + k, row = i / sizes.samples;
        output<int64_t>(buffers, 0)[i] = drawn_index(weights + row * sizes.classes, sizes.classes,
                                                     ends + row * sizes.pieces, drawn.own()[k]);
      }
    };
    for_pieces(threads, sizes.rows * sizes.samples, kRandomWords, [&](int64_t first, int64_t end) {
      for_random_words(source, Piece{buffers, state, first, end, 0}, look_up);
    });
  };
}

Kernel prepare_draw_indices(const Request& request) {
  const ops::WeightRows sizes(request.inputs[0].shape, request.outputs[0].shape);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {draw_indices_of<T>(request, sizes), sizes.workspace()};
  });
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

}  // namespace fast
}  // namespace flow::cpu
