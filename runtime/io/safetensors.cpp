// Reads and writes the header of a .safetensors file, and reads the index of several such files.
#include "runtime/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::io {

namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxAxes = 32;  // NumPy's limit
constexpr const char* kMetadata = "__metadata__";

struct ElementCode {
  std::string_view code;
  size_t bits;
  std::optional<DType> dtype = {};
};
// All element types of the format.
constexpr std::array kElementCodes = {
    ElementCode{"F32", 32, DType::kFloat32},
    ElementCode{"F64", 64, DType::kFloat64},
    ElementCode{"F16", 16, DType::kFloat16},
    ElementCode{"BF16", 16, DType::kBFloat16},
    ElementCode{"I8", 8, DType::kInt8},
    ElementCode{"I32", 32, DType::kInt32},
    ElementCode{"I64", 64, DType::kInt64},
    ElementCode{"U8", 8, DType::kUInt8},
    ElementCode{"BOOL", 8, DType::kBool},
    ElementCode{"I16", 16},
    ElementCode{"U16", 16},
    ElementCode{"U32", 32},
    ElementCode{"U64", 64},
    ElementCode{"C64", 64},
    ElementCode{"F8_E4M3", 8},
    ElementCode{"F8_E5M2", 8},
    ElementCode{"F8_E8M0", 8},
    ElementCode{"F8_E4M3FNUZ", 8},
    ElementCode{"F8_E5M2FNUZ", 8},
    ElementCode{"F6_E2M3", 6},
    ElementCode{"F6_E3M2", 6},
    ElementCode{"F4", 4},
};

/// Returns text of a hostile file in the form in which messages show it.
std::string shown(std::string_view text) { return fmt::format("`{}`", shortened(text)); }

/// Reads and checks the header of a file, whose bytes are `file`.
class SafetensorsHeader {
 public:
  SafetensorsHeader(std::span<const std::byte> file, const std::string& name)
      : file_(file), name_(name) {}

  std::map<std::string, Safetensors::Entry> read() {
    const std::string_view text = header_text();
    data_ = kLengthBytes + text.size();
    const Json json = parse_header(text);
    if (!json.is_object()) fail("its header is not an object");
    std::map<std::string, Safetensors::Entry> arrays;
    for (const auto& [key, value] : json.items()) {
      if (key == kMetadata)
        check_metadata(value);
      else
        arrays.emplace(key, read_array(key, value));
    }
    check_layout(arrays);
    return arrays;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string text = hint_for_text(file_);
    throw RunError(fmt::format("{} is not a valid .safetensors file: {}", name_,
                               text.empty() ? what : "it is a text"),
                   text.empty() ? "get the file again; the copy is damaged or incomplete" : text);
  }

  Json parse_header(std::string_view text) const {
    try {
      return plan::parse_json(text, "header");
    } catch (const RequestError& error) {
      fail(error.what());
    }
  }

  std::string_view header_text() const {
    if (file_.size() < kLengthBytes) fail(fmt::format("it has {} bytes", file_.size()));
    uint64_t length = 0;
    for (size_t i = kLengthBytes; i-- > 0;)
      length = length << 8 | std::to_integer<uint64_t>(file_[i]);
    if (length > kLongestSafetensorsHeader)
      fail(fmt::format("its header has {} bytes; expected at most {}", length,
                       kLongestSafetensorsHeader));
    if (length > file_.size() - kLengthBytes)
      fail(fmt::format("its header has {} bytes, the file only {}", length, file_.size()));
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + kLengthBytes, length);
    if (!text.starts_with('{')) fail("its header does not begin with `{`");
    return text;
  }

  void check_metadata(const Json& json) const {
    if (!json.is_object()) fail("its metadata is not an object");
    for (const auto& [key, value] : json.items())
      if (!value.is_string()) fail(fmt::format("its metadata {} is not text", shown(key)));
  }

  Safetensors::Entry read_array(const std::string& key, const Json& json) const {
    const auto wrong = [&](const std::string& what) {
      fail(fmt::format("array {}: {}", shown(key), what));
    };
    if (key.size() > kLongestArrayName) wrong(fmt::format("its name has {} bytes", key.size()));
    if (!json.is_object() || json.size() != 3 || !json.contains("dtype") ||
        !json.contains("shape") || !json.contains("data_offsets"))
      wrong("expected dtype, shape and data_offsets");
    const Json& dtype = json["dtype"];
    const auto code = dtype.is_string()
                          ? std::ranges::find(kElementCodes, dtype.get_ref<const std::string&>(),
                                              &ElementCode::code)
                          : kElementCodes.end();
    if (code == kElementCodes.end()) wrong(fmt::format("unknown dtype {}", shown(dtype.dump())));
    Safetensors::Entry array{.code = code->code, .dtype = code->dtype, .shape = {}};
    if (json["shape"].size() > kMaxAxes) wrong(fmt::format("more than {} axes", kMaxAxes));
    array.shape = Shape(read_numbers(json["shape"], "shape", key));
    const std::vector<int64_t> offsets = read_numbers(json["data_offsets"], "data_offsets", key);
    if (offsets.size() != 2) wrong("data_offsets is not a pair");
    const auto elements = array.shape.checked_elements();
    // With more than one element per bit of the file, the product below could overflow.
    if (!elements || static_cast<uint64_t>(*elements) > 8 * uint64_t{file_.size()})
      wrong(fmt::format("its shape is too large: {}", array.shape.str()));
    const auto bits = static_cast<uint64_t>(*elements) * code->bits;
    const auto begin = static_cast<uint64_t>(offsets[0]), end = static_cast<uint64_t>(offsets[1]);
    if (end < begin || end > file_.size() - data_)
      wrong(fmt::format("bytes {} to {} of {} bytes of data", begin, end, file_.size() - data_));
    if (bits % 8 != 0 || end - begin != bits / 8)
      wrong(fmt::format("{} bytes for {} of {}", end - begin, array.shape.str(), code->code));
    array.offset = data_ + begin;
    array.bytes = end - begin;
    return array;
  }

  std::vector<int64_t> read_numbers(const Json& json, std::string_view what,
                                    const std::string& key) const {
    std::vector<int64_t> numbers;
    const auto good = [](const Json& one) {
      return one.is_number_unsigned() && one.get<uint64_t>() <= uint64_t{INT64_MAX};
    };
    if (!json.is_array() || !std::ranges::all_of(json, good))
      fail(fmt::format("array {}: {} is not a list of whole numbers", shown(key), what));
    for (const Json& one : json) numbers.push_back(one.get<int64_t>());
    return numbers;
  }

  /// Checks that the arrays cover all of the data and do not overlap.
  void check_layout(const std::map<std::string, Safetensors::Entry>& arrays) const {
    using Placed = std::tuple<size_t, size_t, std::string_view>;
    std::vector<Placed> placed;
    for (const auto& [key, array] : arrays) placed.emplace_back(array.offset, array.bytes, key);
    std::ranges::sort(placed);
    size_t end = data_;
    std::string_view before;
    for (const auto& [offset, bytes, key] : placed) {
      if (offset < end) fail(fmt::format("arrays {} and {} overlap", shown(before), shown(key)));
      if (offset > end)
        fail(fmt::format("{} bytes before array {} belong to no array", offset - end, shown(key)));
      end = offset + bytes;
      before = key;
    }
    if (end != file_.size()) fail(fmt::format("{} bytes after the last array", file_.size() - end));
  }

  std::span<const std::byte> file_;
  const std::string& name_;
  size_t data_ = 0;  // offset at which the bytes of the arrays begin
};

std::string_view element_code(DType dtype) {
  const auto found = std::ranges::find(kElementCodes, std::optional(dtype), &ElementCode::dtype);
  FLOW_CHECK(found != kElementCodes.end(), "no code for {}", name_of(dtype));
  return found->code;
}

}  // namespace

Safetensors::Safetensors(std::span<const std::byte> file, const std::string& name)
    : file_(file), arrays_(SafetensorsHeader(file, name).read()) {}

std::string safetensors_header(std::vector<SafetensorsItem>& items) {
  constexpr size_t kAlignment = 64;
  std::ranges::sort(items, {}, [](const SafetensorsItem& item) {
    return std::tuple<int, const std::string&>(-static_cast<int>(size_of(item.dtype)), item.name);
  });
  // Programs of the PyTorch ecosystem require this entry.
  OrderedJson json = {{kMetadata, {{"format", "pt"}}}};
  size_t at = 0;
  for (const SafetensorsItem& item : items) {
    const size_t end = at + bytes_of(item.shape, item.dtype);
    json[item.name] = {{"dtype", element_code(item.dtype)},
                       {"shape", item.shape.extents()},
                       {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = json.dump();
  while ((kLengthBytes + text.size()) % kAlignment != 0) text += ' ';
  std::string header;
  for (size_t i = 0; i < kLengthBytes; ++i)
    header += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return header + text;
}

namespace {

constexpr const char* kIndexSuffix = ".safetensors.index.json";

/// Returns true for the name of a .safetensors file in the folder of the index, without any path.
bool is_shard_name(const std::string& name) {
  return name.ends_with(kSafetensorsSuffix) &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

/// Returns the sorted names of the folder's files that end with `suffix`.
std::vector<std::string> files_ending_in(const fs::path& folder, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (std::string name = entry.path().filename().string(); name.ends_with(suffix))
      names.push_back(std::move(name));
  std::ranges::sort(names);
  return names;
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw RunError(fmt::format("{} is not a valid index of .safetensors files: {}", name, what));
  };
  const Json json = plan::parse_foreign_json(text, name);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail("`weight_map` is missing");
  SafetensorsIndex files;
  for (const auto& [key, value] : json["weight_map"].items()) {
    if (key.size() > kLongestArrayName)
      fail(fmt::format("the name `{}` has {} bytes", shortened(key), key.size()));
    if (!value.is_string()) fail(fmt::format("the file of `{}` is not text", shortened(key)));
    const auto& file = value.get_ref<const std::string&>();
    if (!is_shard_name(file))
      fail(
          fmt::format("`{}` has file {}; expected the name of a .safetensors file in the folder "
                      "of the index",
                      shortened(key), shortened(value.dump())));
    files.emplace(key, file);
  }
  if (files.empty()) fail("`weight_map` is empty");
  return files;
}

bool is_safetensors_index(const fs::path& path) {
  return path.filename().string().ends_with(kIndexSuffix);
}

std::optional<fs::path> find_safetensors(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    const bool known = path.extension() == kSafetensorsSuffix || is_safetensors_index(path);
    return known ? std::optional(path) : std::nullopt;
  }
  if (!fs::is_directory(path, ignored)) return {};
  const std::string whole = std::string("model") + kSafetensorsSuffix;
  if (fs::is_regular_file(path / whole, ignored)) return path / whole;
  for (const std::string_view suffix : {kIndexSuffix, kSafetensorsSuffix}) {
    const std::vector<std::string> names = files_ending_in(path, suffix);
    if (names.size() == 1) return path / names[0];
    if (names.size() > 1)
      throw RequestError(
          fmt::format(
              "{} has {}: {}", path.string(), counted(names.size(), std::string(suffix) + " file"),
              quoted_alternatives(std::span(names).first(std::min<size_t>(names.size(), 5)))),
          "name one of them");
  }
  return {};
}

}  // namespace flow::io
