// Converts rows of a file to the values that a job uses. NaN and infinity are found by their
// exponents, whose bits are all ones in either byte order.
#include "runtime/io/convert.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/io/elements.h"

namespace flow::io {

namespace {

constexpr size_t kBytes = 256;
constexpr size_t kMostTableChannels = 64;

/// Loads one element of a file, which may have any alignment and either byte order.
template <typename T>
T load(const std::byte* at, bool swap) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), at, sizeof(T));
  if (swap) std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

/// Stores `value` as a To. Returns false if To cannot represent it, or if a finite value becomes
/// infinite.
template <typename To>
bool store(double value, To& out) {
  if constexpr (std::is_same_v<To, Bool>) {
    out = {static_cast<uint8_t>(value == 1)};
    return value == 0 || value == 1;
  } else if constexpr (std::is_integral_v<To>) {
    // Both bounds are doubles. The upper one is the first value that is too large.
    constexpr double kLow = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double kBeyond = static_cast<double>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (!(value >= kLow && value < kBeyond) || value != std::trunc(value)) return false;
    out = static_cast<To>(value);
  } else {
    out = element_of<To>(value);
    return std::isfinite(static_cast<double>(out)) || !std::isfinite(value);
  }
  return true;
}

/// Copies a value without arithmetic. Integers are converted to integers directly, not through a
/// double.
template <typename From, typename To>
bool copy_value(From from, To& out) {
  if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    out = static_cast<To>(from);
    return std::in_range<To>(from);
  } else {
    return store(static_cast<double>(from), out);
  }
}

/// Returns false for integers that are larger than every int64, which no dtype accepts.
template <typename From>
bool is_in_range(From from) {
  if constexpr (std::is_integral_v<From>) return std::in_range<int64_t>(from);
  return true;
}

/// Calls body(T{}) with the type that the elements have in the file.
template <typename Body>
auto visit_file_type(DType dtype, Narrow narrow, Body body) {
  switch (narrow) {
    case Narrow::kInt16:
      return body(int16_t{});
    case Narrow::kUInt16:
      return body(uint16_t{});
    case Narrow::kUInt32:
      return body(uint32_t{});
    case Narrow::kUInt64:
      return body(uint64_t{});
    default:
      return visit_stored(dtype, body);
  }
}

template <typename From, typename To>
std::optional<Misfit> convert_row(const std::byte* from, bool swap, const Affine& affine,
                                  size_t elements, To* out) {
  const size_t inner = elements / affine.channels();
  const bool identity = affine.identity();
  for (size_t i = 0; i < elements; ++i) {
    const From x = load<From>(from + i * sizeof(From), swap);
    if (!is_in_range(x)) return Misfit{i, static_cast<double>(x)};
    const bool fits =
        identity ? copy_value(x, out[i]) : store(affine(static_cast<double>(x), i / inner), out[i]);
    if (!fits)
      return Misfit{i,
                    identity ? static_cast<double>(x) : affine(static_cast<double>(x), i / inner)};
  }
  return std::nullopt;
}

/// Scales bytes to float32. The results are bit-identical to those of the table, and many are
/// computed at a time.
FLOW_VECTORIZED void scale_bytes(const uint8_t* from, double scale, float* out, size_t elements) {
  for (size_t i = 0; i < elements; ++i)
    out[i] = static_cast<float>(static_cast<double>(from[i]) * scale);
}

double byte_value(DType dtype, size_t byte) {
  if (dtype == DType::kInt8) return static_cast<int8_t>(byte);
  if (dtype == DType::kBool) return byte != 0;
  return static_cast<double>(byte);
}

}  // namespace

double Affine::operator()(double x, size_t channel) const {
  double value = x * scale;
  if (!mean.empty()) value -= mean[mean.size() == 1 ? 0 : channel];
  if (!std.empty()) value /= std[std.size() == 1 ? 0 : channel];
  return value;
}

RowConverter::RowConverter(DType from, bool big_endian, Affine affine, size_t elements,
                           Narrow narrow)
    : from_(from),
      narrow_(narrow),
      swap_(big_endian),
      affine_(std::move(affine)),
      elements_(elements),
      inner_(elements / affine_.channels()) {
  FLOW_CHECK(elements % affine_.channels() == 0);
  if (size_of(from) == 1 && affine_.channels() <= kMostTableChannels)
    table_.resize(affine_.channels() * kBytes * sizeof(double));
}

bool RowConverter::use_table(DType to) {
  if (table_.empty()) return false;
  if (table_dtype_ != to) {
    table_dtype_ = to;
    table_whole_ = true;
    visit_stored(to, [&](auto element) {
      auto* entries = reinterpret_cast<decltype(element)*>(table_.data());
      for (size_t channel = 0; channel < affine_.channels(); ++channel)
        for (size_t byte = 0; byte < kBytes; ++byte)
          table_whole_ &=
              store(affine_(byte_value(from_, byte), channel), entries[channel * kBytes + byte]);
    });
  }
  return table_whole_;
}

std::span<const std::byte> RowConverter::table(DType to) {
  if (!use_table(to)) return {};
  return std::span<const std::byte>(table_).first(channels() * kBytes * size_of(to));
}

std::optional<Misfit> RowConverter::convert(const std::byte* from, DType to, std::byte* out) {
  constexpr double kMostScale = std::numeric_limits<float>::max() / 255;
  if (from_ == DType::kUInt8 && to == DType::kFloat32 && affine_.mean.empty() &&
      affine_.std.empty() && std::abs(affine_.scale) < kMostScale) {
    scale_bytes(reinterpret_cast<const uint8_t*>(from), affine_.scale,
                reinterpret_cast<float*>(out), elements_);
    return std::nullopt;
  }
  const bool tabled = use_table(to);
  return visit_stored(to, [&](auto element) -> std::optional<Misfit> {
    using To = decltype(element);
    To* values = reinterpret_cast<To*>(out);
    if (tabled) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(from);
      for (size_t channel = 0; channel < affine_.channels(); ++channel) {
        const To* entries = reinterpret_cast<const To*>(table_.data()) + channel * kBytes;
        for (size_t i = channel * inner_; i < (channel + 1) * inner_; ++i)
          values[i] = entries[bytes[i]];
      }
      return std::nullopt;
    }
    if (from_ == to && narrow_ == Narrow::kNo && affine_.identity() && !swap_ &&
        to != DType::kBool) {
      std::memcpy(out, from, elements_ * size_of(to));
      return std::nullopt;
    }
    return visit_file_type(from_, narrow_, [&](auto source) {
      return convert_row<decltype(source)>(from, swap_, affine_, elements_, values);
    });
  });
}

namespace {

template <typename Bits>
Bits swapped(Bits bits) {
  Bits made = 0;
  for (size_t i = 0; i < sizeof(Bits); ++i)
    made = static_cast<Bits>(made << 8 | (bits >> (8 * i) & 0xFF));
  return made;
}

template <typename Bits>
int64_t count(std::span<const std::byte> elements, Bits exponent, bool big_endian) {
  if (big_endian != (std::endian::native == std::endian::big)) exponent = swapped(exponent);
  const std::byte* from = elements.data();
  int64_t found = 0;
  for (size_t i = 0; i < elements.size() / sizeof(Bits); ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof(Bits), sizeof(Bits));
    found += (bits & exponent) == exponent;
  }
  return found;
}

}  // namespace

int64_t count_nonfinite(DType dtype, bool big_endian, std::span<const std::byte> elements) {
  switch (dtype) {
    case DType::kFloat64:
      return count(elements, uint64_t{0x7FF} << 52, big_endian);
    case DType::kFloat32:
      return count(elements, uint32_t{0xFF} << 23, big_endian);
    case DType::kFloat16:
      return count(elements, uint16_t{0x7C00}, big_endian);
    case DType::kBFloat16:
      return count(elements, uint16_t{0x7F80}, big_endian);
    default:
      FLOW_CHECK(false, "dtype {}", name_of(dtype));
  }
}

std::string nonfinite_text(int64_t count, const fs::path& path, const std::string& first) {
  return fmt::format("{} {} NaN or infinite in {}, first {}",
                     counted(static_cast<uint64_t>(count), "value"), count == 1 ? "is" : "are",
                     path.string(), first);
}

}  // namespace flow::io
