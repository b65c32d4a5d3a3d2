// Structs to JSON text, by their fields (fields.h): the same struct gives the same bytes.
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/plan/json/fields.h"
#include "runtime/plan/model/named_values.h"

namespace flow::plan {

class JsonWriter {
 public:
  enum class Remarks { kKept, kLeftOut };
  explicit JsonWriter(Remarks remarks) : remarks_(remarks) {}

  /// The whole text of a struct. RequestError when a text in it is not UTF-8, which JSON cannot
  /// hold.
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
  void optional(std::string_view key, const std::optional<T>& value) {
    if (value) (*this)(key, *value);
  }
  void flag(std::string_view key, bool value) {
    if (value) (*this)(key, value);
  }
  template <typename T>
  void some(std::string_view key, const std::vector<T>& list) {
    if (!list.empty()) (*this)(key, list);
  }
  template <typename T>
  void one_or_more(std::string_view key, const std::vector<T>& list) {
    if (list.size() > 1)
      (*this)(key, list);
    else
      (*this)(key, list.empty() ? std::nullopt : std::optional(list.front()));
  }
  template <typename T>
  void lines(std::string_view key, const std::vector<T>& list) {
    begin_key(key);
    put_list(list, true);
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
    bool spread;  // its elements stand on lines of their own
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
    put_list(list, false);
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
  requires Spelled<std::variant<T...>>
  void put(const std::variant<T...>& value) {
    begin('{', false);
    begin_key(Spelling<std::variant<T...>>::words[value.index()]);
    std::visit([this](const auto& alternative) { this->put(alternative); }, value);
    end('}');
  }
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      put(spelled(value));
    } else {
      begin('{', kSpread<T>);
      fields(*this, value);
      end('}');
    }
  }
  template <typename T>
  void put_list(const std::vector<T>& list, bool spread) {
    begin('[', spread);
    for (const T& element : list) {
      begin_element();
      put(element);
    }
    end(']');
  }

  Remarks remarks_;
  std::string out_;
  std::vector<Open> open_;
  const Job* job_ = nullptr;  // whose names ids stand for
};

}  // namespace flow::plan
