// Writes structs as JSON text and reads them back, by their fields (fields.h). Equal structs give
// equal bytes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/plan/json/fields.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/named_values.h"

namespace flow::plan {

/// Reads one JSON value strictly; separate readers read the values inside it. Every key that is not
/// optional must be present with the right type, and no other key may be. Throws RequestError with
/// the file, the place and the value that was found.
class JsonReader {
 public:
  /// Reads the value of a whole file. REQUIRES: the arguments outlive the reader.
  JsonReader(const Json& json, const std::string& path) : json_(json), path_(path) {}

  template <typename T>
  void read(T& out) {
    if constexpr (std::is_enum_v<T>) {
      out = static_cast<T>(read_word(EnumNames<T>::words));
    } else {
      expect(json_.is_object(), "an object");
      fields(*this, out);
      refuse_other_keys();
    }
  }

  // The verbs of fields.h.
  template <typename T>
  void operator()(std::string_view key, T& out) {
    child(key).read(out);
  }
  template <typename T>
  void given(std::string_view key, T& out) {
    out = T();
    if (!json_.contains(key)) return;
    if constexpr (requires { *out; })  // an optional
      child(key).read(out.emplace());
    else
      child(key).read(out);
  }
  template <typename T>
  void one_or_more(std::string_view key, std::vector<T>& out) {
    if (child(key).json_.is_null())
      out.clear();
    else
      read_elements(key, out);
  }
  template <typename T>
  void remark(std::string_view key, T& out) {
    (*this)(key, out);
  }
  void remarks(std::string_view key, std::vector<std::string>& out) {
    read_elements(key, out);
    if (out.size() == 1 && out.front().empty()) out.clear();
  }
  template <typename V, typename Read>
  void named(V& out, std::string_view noun, const Read& read_values) {
    NamedValues values;
    read_values(values);
    set_values(out, values, noun, [this](const std::string& problem) { refuse(problem); });
  }
  /// After this call, ids of this job's tensors and steps are read as their names.
  void names_of(const Job& job);

 private:
  using Names = std::unordered_map<std::string_view, size_t>;
  /// The tensors and steps of a job by name, to translate names into indices.
  struct Ids {
    Names tensors, steps;
  };

  JsonReader(const JsonReader& parent, const Json& json, std::string_view key, size_t index)
      : json_(json),
        path_(parent.path_),
        parent_(&parent),
        key_(key),
        index_(index),
        ids_(parent.ids_) {}

  /// Reads a list, or a single value as a list of one element.
  template <typename T>
  void read_elements(std::string_view key, std::vector<T>& out) {
    JsonReader value = child(key);
    if (value.json_.is_array()) return value.read(out);
    out.clear();
    value.read(out.emplace_back());
  }
  /// Returns the value of `key`, and records that the key was read.
  JsonReader child(std::string_view key);
  JsonReader item(size_t index) const { return {*this, json_[index], {}, index}; }
  [[noreturn]] void refuse_missing(std::string_view key) const;
  void refuse_other_keys() const;
  void expect(bool good, std::string_view what) const;
  [[noreturn]] void refuse(const std::string& what) const;
  std::string place() const;
  Names collect_names(std::string_view list) const;
  int64_t read_integer() const;
  size_t read_word(std::span<const std::string_view> words) const;
  [[noreturn]] void refuse_word(const std::string& found,
                                std::span<const std::string_view> words) const;
  int32_t read_id(Names Ids::*names, std::string_view what) const;

  void read(bool& out);
  void read(int& out);
  void read(int64_t& out) { out = read_integer(); }
  void read(uint64_t& out);
  void read(double& out);
  void read(std::string& out);
  void read(ops::OpRef& out);
  void read(DType& out);
  void read(Shape& out);
  void read(TensorId& out) { out.value = read_id(&Ids::tensors, "tensor"); }
  void read(StepId& out) { out.value = read_id(&Ids::steps, "step"); }
  void read(std::pair<int64_t, int64_t>& out);
  void read(Attributes& out);
  template <typename T, size_t N>
  void read(std::array<T, N>& out) {
    expect(json_.is_array() && json_.size() == N, "a list of " + std::to_string(N) + " elements");
    for (size_t i = 0; i < N; ++i) item(i).read(out[i]);
  }
  template <typename T>
  void read(std::vector<T>& out) {
    expect(json_.is_array(), "a list");
    out.clear();  // filled one by one: a short text cannot claim much memory
    for (size_t i = 0; i < json_.size(); ++i) item(i).read(out.emplace_back());
  }
  template <typename T>
  void read(std::optional<T>& out) {
    out.reset();
    if (!json_.is_null()) read(out.emplace());
  }
  template <typename T>
  void read(std::map<std::string, T>& out) {
    expect(json_.is_object(), "an object");
    for (const auto& [key, value] : json_.items()) JsonReader(*this, value, key, 0).read(out[key]);
  }
  template <typename... T>
  requires HasEnumNames<std::variant<T...>>
  void read(std::variant<T...>& out) {
    const auto& words = EnumNames<std::variant<T...>>::words;
    expect(json_.is_object() && json_.size() == 1, "an object with one key");
    const std::string& key = json_.begin().key();
    size_t index = 0;
    while (index < words.size() && words[index] != key) ++index;
    if (index == words.size()) refuse_word(key, words);
    size_t alternative = 0;
    const auto read_one = [&]<typename One>(One one) {
      if (alternative++ != index) return;
      child(words[index]).read(one);
      out = std::move(one);
    };
    (read_one(T{}), ...);
  }

  const Json& json_;
  const std::string& path_;
  const JsonReader* parent_ = nullptr;
  std::string_view key_;  // the key in the parent; null for a list item, whose position is index_
  size_t index_ = 0;
  std::vector<std::string_view> known_;  // keys of this object that have been read
  std::unique_ptr<const Ids> own_ids_;   // only set in the reader of a job
  const Ids* ids_ = nullptr;             // the ids of this reader or of its job's reader
};

/// Writes a struct as text, key by key.
class JsonWriter {
 public:
  enum class Remarks { kKept, kLeftOut };
  explicit JsonWriter(Remarks remarks) : remarks_(remarks) {}

  /// Writes the whole text of a struct. Throws RequestError if a string in it is not UTF-8, which
  /// JSON cannot represent.
  template <typename T>
  std::string write(const T& value) && {
    put(value);
    out_ += '\n';
    return std::move(out_);
  }

  // The verbs of fields.h.
  template <typename T>
  void operator()(std::string_view key, const T& value) {
    begin_key(key);
    put(value);
  }
  template <typename T>
  void given(std::string_view key, const T& value) {
    bool any = false;
    if constexpr (requires { value.empty(); })
      any = !value.empty();
    else
      any = static_cast<bool>(value);
    if (any) (*this)(key, value);
  }
  template <typename T>
  void one_or_more(std::string_view key, const std::vector<T>& list) {
    if (list.size() > 1)
      (*this)(key, list);
    else
      (*this)(key, list.empty() ? std::nullopt : std::optional(list.front()));
  }
  template <typename T>
  void remark(std::string_view key, const T& value) {
    if (remarks_ == Remarks::kKept) (*this)(key, value);
  }
  void remarks(std::string_view key, const std::vector<std::string>& texts) {
    if (texts.size() > 1)
      remark(key, texts);
    else
      remark(key, texts.empty() ? std::string() : texts.front());
  }
  template <typename V, typename Write>
  void named(const V& value, std::string_view, const Write& write_values) {
    const NamedValues values = named_values(value);
    write_values(values);
  }
  void names_of(const Job& job) { job_ = &job; }

 private:
  /// An object or list that is being written.
  struct Open {
    bool spread;  // each element is on a line of its own
    bool empty = true;
    std::string_view last_key = {};
  };

  void begin(char bracket, bool spread);
  void end(char bracket);
  void begin_element();
  void begin_key(std::string_view key);

  void put(bool value);
  void put(double value);
  void put(std::string_view text);
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const ops::OpRef& op) { put(op.name()); }
  void put(TensorId id);
  void put(StepId id);
  void put(const Attributes& attributes);
  void put(int value) { put(int64_t{value}); }
  void put(int64_t value) { out_ += fmt::format_int(value).str(); }
  void put(uint64_t value) { out_ += fmt::format_int(value).str(); }
  void put(DType dtype) { put(name_of(dtype)); }
  void put(const Shape& shape) { put(shape.extents()); }
  void put(const std::pair<int64_t, int64_t>& range) {
    put(std::vector<int64_t>{range.first, range.second});
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put_list(list, OnOwnLine<T>);
  }
  template <typename T, size_t N>
  void put(const std::array<T, N>& list) {
    put_list(list, false);
  }
  void put_list(const auto& list, bool spread) {
    begin('[', spread);
    for (const auto& element : list) {
      begin_element();
      put(element);
    }
    end(']');
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    if (value)
      put(*value);
    else
      out_ += "null";
  }
  template <typename T>
  void put(const std::map<std::string, T>& values) {
    begin('{', false);
    for (const auto& [key, value] : values) (*this)(key, value);
    end('}');
  }
  template <typename... T>
  requires HasEnumNames<std::variant<T...>>
  void put(const std::variant<T...>& value) {
    begin('{', false);
    begin_key(EnumNames<std::variant<T...>>::words[value.index()]);
    std::visit([this](const auto& alternative) { this->put(alternative); }, value);
    end('}');
  }
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      put(enum_name(value));
    } else {
      begin('{', kSpread<T>);
      fields(*this, value);
      end('}');
    }
  }

  Remarks remarks_;
  std::string out_;
  std::vector<Open> open_;
  const Job* job_ = nullptr;  // the job whose names are written for ids
};

}  // namespace flow::plan
