// Reads and writes the header of a .npy file: a Python dictionary with three known keys.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "runtime/base/file.h"
#include "runtime/io/npy.h"
#include "runtime/io/numpy_text.h"

namespace flow::io {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int kMaxRank = 32;  // NumPy's limit

struct Code {
  std::string_view code;  // kind and size
  DType dtype;
  Narrow narrow = Narrow::kNo;
};
/// NumPy has no bfloat16: numpy.save writes the bfloat16 of the package ml_dtypes as two opaque
/// bytes.
constexpr std::array kCodes = {
    Code{"f4", DType::kFloat32},
    Code{"f8", DType::kFloat64},
    Code{"f2", DType::kFloat16},
    Code{"i1", DType::kInt8},
    Code{"i4", DType::kInt32},
    Code{"i8", DType::kInt64},
    Code{"u1", DType::kUInt8},
    Code{"b1", DType::kBool},
    Code{"V2", DType::kBFloat16},
    Code{"i2", DType::kInt32, Narrow::kInt16},
    Code{"u2", DType::kInt32, Narrow::kUInt16},
};

/// Returns bytes of a hostile file as one line of printable text, cut to a readable length.
std::string readable(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

/// Reads the literals of a header from left to right.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        read_dtype(header);
      } else if (key == "fortran_order" && !order) {
        order = true;
        header.fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        header.shape = read_shape();
      } else {
        fail(fmt::format("has an unexpected key `{}` in its header", readable(key)));
      }
      if (!accept(',') && peek() != '}') malformed();
    }
    peek();
    if (at_ < text_.size()) malformed();
    if (!descr || !order || !shape) fail("has a header without descr, fortran_order or shape");
    if (!header.shape.checked_elements())
      fail(fmt::format("has a shape that is too large: {}", header.shape.str()));
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what, std::string hint = {}) const {
    throw RunError(name_ + " " + what, std::move(hint));
  }
  [[noreturn]] void malformed() const {
    fail(fmt::format("has an invalid .npy header: `{}`", readable(text_)));
  }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed();
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) malformed();
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }

  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    malformed();
  }

  void read_dtype(NpyHeader& header) {
    if (peek() == '[') fail("is a structured array; expected plain numbers");
    std::string_view descr = string();
    const std::string_view whole = descr;
    if (!descr.empty() && std::string_view("<>=|").find(descr[0]) != std::string_view::npos) {
      header.big_endian = descr[0] == '>';
      descr.remove_prefix(1);
    }
    for (const Code& code : kCodes)
      if (code.code == descr) {
        header.dtype = code.dtype;
        header.narrow = code.narrow;
        return;
      }
    fail(fmt::format("has unsupported dtype `{}`; expected float16, float32, float64, int8, "
                     "int16, int32, int64, uint8, uint16 or bool",
                     readable(whole)),
         descr.starts_with('i') || descr.starts_with('u')
             ? "convert it with `array.astype(\"int32\")` or `(\"int64\")` before numpy.save"
             : "");
  }

  int64_t extent() {
    peek();
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [next, error] = std::from_chars(text_.data() + at_, end, value);
    if (error == std::errc::result_out_of_range) fail("has a shape that is too large");
    if (error != std::errc()) malformed();
    if (value < 0) fail(fmt::format("has a negative extent: {}", value));
    // Python does not allow a number to begin with 0.
    if (text_[at_] == '0' && value != 0) malformed();
    at_ = static_cast<size_t>(next - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote longs with this suffix.
    return value;
  }

  Shape read_shape() {
    std::vector<int64_t> extents;
    expect('(');
    while (!accept(')')) {
      extents.push_back(extent());
      if (extents.size() > kMaxRank) fail(fmt::format("has more than {} axes", kMaxRank));
      const bool comma = accept(',');
      // Without a comma, `(3)` is a number and not a tuple.
      if (!comma && (peek() != ')' || extents.size() == 1)) malformed();
    }
    return Shape(std::move(extents));
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

}  // namespace

void require_npy_magic(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic))
    throw RunError(fmt::format("{} is not a .npy file: it begins with `{}`", name,
                               readable(text.substr(0, kMagic.size()))),
                   hint_for_text(bytes));
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  if (text.empty()) throw RunError(name + " is empty");
  require_npy_magic(bytes, name);
  if (text.size() < 12) throw RunError(name + " is truncated inside its header");
  const size_t version = byte(6), minor = byte(7);
  if (version < 1 || version > 3 || minor != 0)
    throw RunError(fmt::format("{} has unsupported .npy version {}.{}; expected 1.0, 2.0 or 3.0",
                               name, version, minor));
  const size_t begin = version == 1 ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (begin + length > kLongestNpyHeader)
    throw RunError(fmt::format("{} has a header of {} bytes; expected at most {}", name, length,
                               kLongestNpyHeader - begin));
  if (length > text.size() - begin) throw RunError(name + " is truncated inside its header");
  NpyHeader header = HeaderParser(text.substr(begin, length), name).parse();
  header.data_offset = begin + length;
  return header;
}

void check_npy_length(const NpyHeader& header, size_t file_bytes, const std::string& name) {
  const size_t found = file_bytes - header.data_offset;
  if (found == header.data_bytes()) return;
  throw RunError(fmt::format("{} {}: {} bytes of data; {} of {} requires {}", name,
                             found < header.data_bytes() ? "is truncated" : "is too long", found,
                             header.shape.str(), name_of(header.dtype), header.data_bytes()));
}

namespace {

std::string_view code_of(DType dtype) {
  for (const Code& code : kCodes)
    if (code.dtype == dtype && code.narrow == Narrow::kNo) return code.code;
  FLOW_CHECK(false, ".npy has no {}", name_of(dtype));
}

}  // namespace

std::string npy_header(DType dtype, const Shape& shape, bool grow) {
  constexpr size_t kAlignment = 64, kDigits = 20, kPreamble = 10;
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                  size_of(dtype) == 1 ? '|' : '<', code_of(dtype), shape_tuple(shape));
  if (grow) text.append(kDigits - fmt::formatted_size("{}", shape[0]), ' ');
  while ((kPreamble + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  FLOW_CHECK(text.size() < 65536);
  std::string header(kMagic);
  header +=
      {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace flow::io
