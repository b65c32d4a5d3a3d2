// Takes fingerprints of tensors. The shape determines the chunks, and therefore the order in which
// their sums are added.
#include "runtime/cpu/backend/fingerprint.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/plan/model/shards.h"

namespace flow::cpu {
namespace {

constexpr int64_t kChunkElements = 16 * kHashKeys;

/// Returns true if each plane of the tensor is a row of its hash.
bool has_planes(const Shape& shape) {
  return shape.rank() == 4 && shape.elements(2, 4) >= kSmallPlane;
}

/// The unsigned integer with the same number of bytes as T, but at most 32 bits.
template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 1, uint8_t,
                                  std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>>;
constexpr int64_t kMomentLanes = 8;

/// Returns the sum of word * key over the words of one block.
FLOW_VECTORIZED uint64_t hash_words(const std::byte* words, const uint32_t* keys, int64_t n) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t word;
    std::memcpy(&word, words + i * static_cast<int64_t>(sizeof(word)), sizeof(word));
    sum += uint64_t{word} * keys[i];
  }
  return sum;
}

/// Widens elements of fewer bytes to words.
template <typename Bits>
void widen(const std::byte* elements, int64_t n, uint32_t* words) {
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, elements + i * static_cast<int64_t>(sizeof(bits)), sizeof(bits));
    words[i] = bits;
  }
}

void add_element(double x, Fingerprint& to) {
  if (!std::isfinite(x)) {
    ++to.not_finite;
    return;
  }
  to.sum += x;
  to.absolute += std::abs(x);
  to.square += x * x;
  to.least = std::min(to.least, x);
  to.most = std::max(to.most, x);
}

using Floats = float __attribute__((vector_size(kMomentLanes * sizeof(float))));
using MomentWords = uint32_t __attribute__((vector_size(kMomentLanes * sizeof(uint32_t))));
using Doubles = double __attribute__((vector_size(kMomentLanes * sizeof(double))));

/// Adds the moments of whole vectors, but not the count or the hash. Each lane is summed
/// separately, so that all vector widths give bit-identical results.
FLOW_VECTORIZED void add_moments(const float* x, int64_t n, Fingerprint* to) {
  Doubles sum = {}, absolute = {}, square = {};
  const MomentWords infinity = MomentWords{} + 0x7F800000, magnitude = MomentWords{} + 0x7FFFFFFF;
  const MomentWords sign = MomentWords{} + 0x80000000;
  Floats least, most;
  std::memcpy(&least, &infinity, sizeof(least));
  most = -least;
  MomentWords finite = {};
  for (int64_t i = 0; i < n; i += kMomentLanes) {
    MomentWords bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    const MomentWords is_finite = reinterpret_cast<MomentWords>((bits & infinity) != infinity);
    const MomentWords kept = bits & is_finite;
    const MomentWords low = kept | (infinity & ~is_finite),
                      high = kept | ((infinity | sign) & ~is_finite);
    const MomentWords size = kept & magnitude;
    Floats value, lower, upper, absolute_value;
    std::memcpy(&value, &kept, sizeof(value));
    std::memcpy(&lower, &low, sizeof(lower));
    std::memcpy(&upper, &high, sizeof(upper));
    std::memcpy(&absolute_value, &size, sizeof(absolute_value));
    const Doubles wide = __builtin_convertvector(value, Doubles);
    sum += wide;
    absolute += __builtin_convertvector(absolute_value, Doubles);
    square += wide * wide;
    least = lower < least ? lower : least;
    most = upper > most ? upper : most;
    finite -= is_finite;
  }
  for (int64_t lane = 0; lane < kMomentLanes; ++lane) {
    to->sum += sum[lane];
    to->absolute += absolute[lane];
    to->square += square[lane];
    to->least = std::min(to->least, static_cast<double>(least[lane]));
    to->most = std::max(to->most, static_cast<double>(most[lane]));
    to->not_finite -= finite[lane];
  }
  to->not_finite += n;
}

/// A run of elements that have the same factor: some columns of a row.
struct Run {
  int64_t row, block;  // the row and the block that determine the factor
  int64_t first_key;
};

/// Maps the elements of a tensor to the rows of its hash.
template <typename T>
class HashRows {
 public:
  explicit HashRows(const FingerprintSource& source) : first_(source.first) {
    if (has_planes(source.shape)) columns_ = source.shape.elements(2, 4);
  }
  /// Returns the run that contains the element, and the number of elements from it to the end of
  /// the run.
  std::pair<Run, int64_t> run_at(int64_t element) const {
    const int64_t index = first_ + element, column = index % columns_;
    const int64_t block = column / kBlock;
    const int64_t end = std::min(columns_, (block + 1) * kBlock);
    return {{index / columns_, block, column % kBlock * kWords}, end - column};
  }

 private:
  static constexpr int64_t kWords = sizeof(T) == 8 ? 2 : 1;
  static constexpr int64_t kBlock = kHashKeys / kWords;  // elements of a block

  int64_t columns_ = kBlock;
  const int64_t first_;
};

template <typename T>
void add_moments_of(const T* x, int64_t n, Fingerprint& to) {
  int64_t done = 0;
  if constexpr (std::is_same_v<T, float>) {
    done = n / kMomentLanes * kMomentLanes;
    add_moments(x, done, &to);
  }
  for (int64_t i = done; i < n; ++i) add_element(static_cast<double>(x[i]), to);
}

template <typename T>
uint64_t hash_of_run(const T* x, int64_t n, const Run& run) {
  const auto* words = reinterpret_cast<const std::byte*>(x);
  uint32_t wide[kHashKeys];
  if constexpr (sizeof(T) < sizeof(uint32_t)) {
    widen<BitsOf<T>>(words, n, wide);
    words = reinterpret_cast<const std::byte*>(wide);
  }
  const uint64_t sum =
      hash_words(words, kHashKeyTable.data() + run.first_key, sizeof(T) == 8 ? 2 * n : n);
  return sum * hash_factor(run.row, run.block);
}

template <typename T>
Fingerprint of_plain(const FingerprintSource& source, int64_t first, int64_t end) {
  const T* x = reinterpret_cast<const T*>(source.data);
  const HashRows<T> rows(source);
  Fingerprint made;
  made.count = end - first;
  add_moments_of(x + first, end - first, made);
  while (first < end) {
    const auto [run, length] = rows.run_at(first);
    const int64_t count = std::min(length, end - first);
    made.hash += hash_of_run(x + first, count, run);
    first += count;
  }
  return made;
}

/// Copies the elements [first, end) of an image that is [pixels, channels] in memory, in C order.
template <typename T>
void bring_in_order(const FingerprintSource& source, int64_t first, int64_t end, T* copy) {
  const T* data = reinterpret_cast<const T*>(source.data);
  const int64_t channels = source.shape[1], pixels = source.shape.elements(2, 4);
  for (int64_t i = first; i < end; ++i) {
    const int64_t pixel = i % pixels, channel = i / pixels % channels;
    copy[i - first] = data[(i / pixels / channels * pixels + pixel) * channels + channel];
  }
}

/// Returns the fingerprint of channels-last elements that have no planes, or that have 64 bits.
template <typename T>
Fingerprint of_reordered(const FingerprintSource& source, int64_t first, int64_t end) {
  const HashRows<T> rows(source);
  Fingerprint made;
  made.count = end - first;
  T copy[kHashKeys];
  while (first < end) {
    const auto [run, length] = rows.run_at(first);
    const int64_t count = std::min(length, end - first);
    bring_in_order(source, first, first + count, copy);
    add_moments_of(copy, count, made);
    made.hash += hash_of_run(copy, count, run);
    first += count;
  }
  return made;
}

/// Adds the products of pixels [0, n) with their keys to the sum of each channel.
template <typename Bits>
FLOW_VECTORIZED void hash_pixels(const std::byte* words, int64_t stride, const uint32_t* keys,
                                 int64_t n, int64_t channels, uint64_t* sums) {
  for (int64_t pixel = 0; pixel < n; ++pixel) {
    const std::byte* at = words + pixel * stride * static_cast<int64_t>(sizeof(Bits));
    for (int64_t channel = 0; channel < channels; ++channel) {
      Bits word;
      std::memcpy(&word, at + channel * static_cast<int64_t>(sizeof(Bits)), sizeof(word));
      sums[channel] += uint64_t{word} * keys[pixel];
    }
  }
}

/// Adds the pixels [first, first + n) of an image, which use one block of keys.
template <typename T>
void add_pixels(const FingerprintSource& source, int64_t image, int64_t first, int64_t n,
                Fingerprint& to) {
  constexpr int64_t kTogether = 256;
  const int64_t channels = source.shape[1], pixels = source.shape.elements(2, 4);
  const T* x = reinterpret_cast<const T*>(source.data) + (image * pixels + first) * channels;
  add_moments_of(x, n * channels, to);
  to.count += n * channels;
  const int64_t row = source.first / pixels + image * channels;
  for (int64_t from = 0; from < channels; from += kTogether) {
    const int64_t count = std::min(kTogether, channels - from);
    uint64_t sums[kTogether] = {};
    hash_pixels<BitsOf<T>>(reinterpret_cast<const std::byte*>(x + from), channels,
                           kHashKeyTable.data(), n, count, sums);
    for (int64_t channel = 0; channel < count; ++channel)
      to.hash += sums[channel] * hash_factor(row + from + channel, first / kHashKeys);
  }
}

/// The units of work for channels-last planes. A unit consists of the pixels of an image that use
/// one block of keys.
struct PixelUnits {
  explicit PixelUnits(const Shape& shape)
      : pixels(shape.elements(2, 4)),
        of_image(ceil_div(pixels, kHashKeys)),
        count(shape[0] * of_image),
        together(std::max<int64_t>(1, kChunkElements / (shape[1] * std::min(pixels, kHashKeys)))) {}

  int64_t pixels, of_image, count;
  int64_t together;  // units of a chunk
};

template <typename T>
Fingerprint of_units(const FingerprintSource& source, const PixelUnits& units, int64_t chunk) {
  Fingerprint made;
  const int64_t end = std::min(units.count, (chunk + 1) * units.together);
  for (int64_t unit = chunk * units.together; unit < end; ++unit) {
    const int64_t first = unit % units.of_image * kHashKeys;
    add_pixels<T>(source, unit / units.of_image, first, std::min(kHashKeys, units.pixels - first),
                  made);
  }
  return made;
}

bool has_pixel_units(const FingerprintSource& source) {
  return source.layout == Layout::kChannelsLast && has_planes(source.shape) &&
         !layouts_coincide(source.shape) && size_of(source.dtype) < sizeof(uint64_t);
}

template <typename T>
Fingerprint of_chunk(const FingerprintSource& source, int64_t chunk) {
  if constexpr (sizeof(T) < sizeof(uint64_t))
    if (has_pixel_units(source)) return of_units<T>(source, PixelUnits(source.shape), chunk);
  const int64_t first = chunk * kChunkElements;
  const int64_t end = std::min(source.elements, first + kChunkElements);
  const bool plain = source.layout == Layout::kPlain || layouts_coincide(source.shape);
  return plain ? of_plain<T>(source, first, end) : of_reordered<T>(source, first, end);
}

int64_t chunks_of(const FingerprintSource& source) {
  if (!has_pixel_units(source)) return ceil_div(source.elements, kChunkElements);
  const PixelUnits units(source.shape);
  return ceil_div(units.count, units.together);
}

}  // namespace

size_t fingerprint_chunks(const Shape& shape) {
  // Channels-last tensors need the largest number of chunks.
  const int64_t plain = ceil_div(shape.elements(), kChunkElements);
  if (!has_planes(shape)) return static_cast<size_t>(plain);
  const PixelUnits units(shape);
  return static_cast<size_t>(std::max(plain, ceil_div(units.count, units.together)));
}

Fingerprint fingerprint_of(int threads, const FingerprintSource& source,
                           std::span<Fingerprint> chunks) {
  const int64_t count = chunks_of(source);
  FLOW_CHECK(static_cast<size_t>(count) <= chunks.size());
  FLOW_CHECK(source.layout == Layout::kPlain || layouts_coincide(source.shape) ||
             source.elements == source.shape.elements());
  visit_dtype(source.dtype, [&]<typename T>(T) {
    // A byte of a bool tensor need not be a valid C++ bool.
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    parallel_for(threads, count, [&](int64_t chunk, int) {
      chunks[static_cast<size_t>(chunk)] = of_chunk<Stored>(source, chunk);
    });
  });
  Fingerprint made;
  for (int64_t chunk = 0; chunk < count; ++chunk) made.merge(chunks[static_cast<size_t>(chunk)]);
  return made;
}

using plan::TensorId;

ProgramFingerprints::ProgramFingerprints(const plan::Job& job, exec::FingerprintPlan plan,
                                         size_t output_slots, Made made)
    : plan_(std::move(plan)), made_(std::move(made)) {
  size_t chunks = 0;
  for (const TensorId id : tensors())
    chunks = std::max(chunks, fingerprint_chunks(plan::whole_shape(job, job[id])));
  chunks_.resize(chunks);
  taken_.assign(output_slots, std::vector<Fingerprint>(tensors().size()));
}

void ProgramFingerprints::begin(size_t output_slot) {
  std::ranges::fill(taken_[output_slot], Fingerprint());
}

void ProgramFingerprints::take(int threads, const Entry& entry, int64_t step, size_t output_slot,
                               FingerprintSource source) {
  if (made_)
    made_(step, entry.tensor,
          {const_cast<std::byte*>(source.data),
           static_cast<size_t>(source.elements) * size_of(source.dtype)});
  const auto begin = std::chrono::steady_clock::now();
  Fingerprint& taken = taken_[output_slot][entry.at];
  source.first = entry.part.first + taken.count;
  taken.merge(fingerprint_of(threads, source, chunks_));
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace flow::cpu
