// Reads structs from JSON and writes them as JSON text.
#include "runtime/plan/json/structs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::plan {

namespace {

/// Describes the value that was found, short enough for a message.
std::string excerpt(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  constexpr size_t kLongest = 60;
  std::string text = json.dump(-1, ' ', true);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return "`" + text + "`";
}

}  // namespace

std::string JsonReader::place() const {
  if (!parent_) return {};
  const std::string before = parent_->place();
  if (key_.data() == nullptr) return fmt::format("{}[{}]", before, index_);
  return before.empty() ? std::string(key_) : fmt::format("{}.{}", before, key_);
}

void JsonReader::refuse(const std::string& what) const {
  const std::string at = place();
  throw RequestError(fmt::format("{}: {}{}", path_, at.empty() ? "" : at + ": ", what));
}

void JsonReader::expect(bool good, std::string_view what) const {
  if (!good) refuse(fmt::format("found {}; expected {}", excerpt(json_), what));
}

JsonReader JsonReader::child(std::string_view key) {
  const auto found = json_.find(key);
  if (found == json_.end()) refuse_missing(key);
  known_.push_back(key);
  return {*this, *found, key, 0};
}

void JsonReader::refuse_missing(std::string_view key) const {
  std::vector<std::string> others;
  for (const auto& [other, value] : json_.items())
    if (std::ranges::find(known_, other) == known_.end()) others.push_back(other);
  const auto near = suggest(key, others);
  refuse(fmt::format("missing key `{}`{}", key,
                     near.empty() ? "" : fmt::format("; found `{}`", near.front())));
}

void JsonReader::refuse_other_keys() const {
  if (known_.size() == json_.size()) return;
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [key, value] : json_.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const auto near = suggest(key, known);
    refuse(fmt::format("unknown key `{}`{}", key,
                       near.empty() ? "" : fmt::format("; did you mean `{}`?", near.front())));
  }
}

JsonReader::Names JsonReader::collect_names(std::string_view list) const {
  Names names;
  const auto found = json_.find(list);
  if (found == json_.end() || !found->is_array()) return names;  // read() refuses it later
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& element = (*found)[i];
    const auto name = element.is_object() ? element.find("name") : element.end();
    if (!element.is_object() || name == element.end() || !name->is_string()) continue;
    const auto [first, fresh] = names.emplace(name->get_ref<const std::string&>(), i);
    if (!fresh)
      refuse(fmt::format("{0}[{1}]: duplicate name `{2}`; {0}[{3}] has it too", list, i,
                         first->first, first->second));
  }
  return names;
}

void JsonReader::names_of(const Job&) {
  own_ids_ = std::make_unique<const Ids>(Ids{collect_names("tensors"), collect_names("steps")});
  ids_ = own_ids_.get();
}

int32_t JsonReader::read_id(Names Ids::*names, std::string_view what) const {
  if (json_.is_null()) return -1;
  expect(json_.is_string(), "a name or null");
  const auto& name = json_.get_ref<const std::string&>();
  const auto found = (ids_->*names).find(name);
  if (found == (ids_->*names).end()) refuse(fmt::format("unknown {} `{}`", what, name));
  if (found->second > std::numeric_limits<int32_t>::max()) refuse("too many elements");
  return static_cast<int32_t>(found->second);
}

int64_t JsonReader::read_integer() const {
  expect(json_.is_number_integer(), "an integer");
  // The parser reports integers as unsigned unless they have a sign.
  const bool fits = !json_.is_number_unsigned() ||
                    json_.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  expect(fits, "a 64-bit integer");
  return json_.get<int64_t>();
}

size_t JsonReader::read_word(std::span<const std::string_view> words) const {
  expect(json_.is_string(), "a word");
  const auto& word = json_.get_ref<const std::string&>();
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) refuse_word(word, words);
  return static_cast<size_t>(found - words.begin());
}

void JsonReader::refuse_word(const std::string& found,
                             std::span<const std::string_view> words) const {
  const std::vector<std::string> all(words.begin(), words.end());
  refuse(fmt::format("unknown word `{}`; expected {}", found, quoted_alternatives(all)));
}

void JsonReader::read(bool& out) {
  expect(json_.is_boolean(), "true or false");
  out = json_.get<bool>();
}

void JsonReader::read(int& out) {
  const int64_t value = read_integer();
  expect(std::in_range<int>(value), "a small integer");
  out = static_cast<int>(value);
}

void JsonReader::read(uint64_t& out) {
  expect(json_.is_number_unsigned(), "a non-negative integer");
  out = json_.get<uint64_t>();
}

void JsonReader::read(double& out) {
  if (json_.is_number_float()) {
    out = json_.get<double>();
    return;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json_ == Json{{"float", "inf"}})
    out = kInfinity;
  else if (json_ == Json{{"float", "-inf"}})
    out = -kInfinity;
  else if (json_ == Json{{"float", "nan"}})
    out = std::numeric_limits<double>::quiet_NaN();
  else
    expect(false, "a number with a point or an exponent");
}

void JsonReader::read(std::string& out) {
  expect(json_.is_string(), "text");
  out = json_.get_ref<const std::string&>();
}

void JsonReader::read(ops::OpRef& out) {
  std::string name;
  read(name);
  out = std::move(name);
}

void JsonReader::read(DType& out) {
  expect(json_.is_string(), "a dtype");
  const auto dtype = parse_dtype(json_.get_ref<const std::string&>());
  expect(dtype.has_value(), "a dtype");
  out = *dtype;
}

void JsonReader::read(Shape& out) {
  std::vector<int64_t> extents;
  read(extents);
  out = Shape(std::move(extents));
}

void JsonReader::read(std::pair<int64_t, int64_t>& out) {
  expect(json_.is_array() && json_.size() == 2, "a list of two integers");
  item(0).read(out.first);
  item(1).read(out.second);
}

void JsonReader::read(Attributes& out) {
  expect(json_.is_object(), "an object");
  const auto read_as = [&]<typename T>(JsonReader& at, std::string_view name, T value) {
    at.read(value);
    out.set(name, std::move(value));
  };
  for (const auto& [name, value] : json_.items()) {
    JsonReader at(*this, value, name, 0);
    if (name == kDTypeAttribute)
      read_as(at, name, DType());
    else if (value.is_boolean())
      read_as(at, name, false);
    else if (value.is_number_integer())
      read_as(at, name, int64_t{});
    else if (value.is_array())
      read_as(at, name, std::vector<int64_t>());
    else if (value.is_string())
      read_as(at, name, std::string());
    else
      read_as(at, name, double{});
  }
}

void JsonWriter::begin(char bracket, bool spread) {
  out_ += bracket;
  open_.push_back({spread});
}

void JsonWriter::end(char bracket) {
  const bool on_own_line = open_.back().spread && !open_.back().empty;
  open_.pop_back();
  if (on_own_line) {
    out_ += '\n';
    out_.append(2 * open_.size(), ' ');
  }
  out_ += bracket;
}

void JsonWriter::begin_element() {
  Open& open = open_.back();
  if (!open.empty) out_ += ',';
  if (open.spread) {
    out_ += '\n';
    out_.append(2 * open_.size(), ' ');
  }
  open.empty = false;
}

void JsonWriter::begin_key(std::string_view key) {
  FLOW_CHECK(open_.back().empty || open_.back().last_key < key, "`{}` is not in order", key);
  begin_element();
  open_.back().last_key = key;
  put(key);
  out_ += open_.back().spread ? ": " : ":";
}

void JsonWriter::put(bool value) { out_ += value ? "true" : "false"; }

void JsonWriter::put(double value) { out_ += json_number(value); }

void JsonWriter::put(std::string_view text) { out_ += json_string(text); }

void JsonWriter::put(TensorId id) {
  if (id.valid())
    put((*job_)[id].name);
  else
    out_ += "null";
}

void JsonWriter::put(StepId id) {
  if (id.valid())
    put(job_->steps[id.index()].name);
  else
    out_ += "null";
}

void JsonWriter::put(const Attributes& attributes) {
  begin('{', false);
  for (const auto& [name, value] : attributes) {
    // Strings and dtypes look alike in JSON; the name of the attribute tells them apart.
    FLOW_CHECK((name == kDTypeAttribute) == std::holds_alternative<DType>(value), "`{}`", name);
    begin_key(name);
    std::visit([this](const auto& one) { this->put(one); }, value);
  }
  end('}');
}

}  // namespace flow::plan
