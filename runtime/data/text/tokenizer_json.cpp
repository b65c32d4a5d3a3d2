// Reads the tokenizer.json of Hugging Face's tokenizers. A part that could change ids is either
// followed or refused by name.
#include "runtime/data/text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/data/text/utf8.h"

namespace flow::data {

namespace {

class TokenizerFile {
 public:
  explicit TokenizerFile(const NamedText& file)
      : name_(file.name), json_(plan::parse_foreign_json(file.text, file.name)) {}

  BytePairs read() {
    require_keys(json_, "",
                 {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                  "post_processor", "decoder", "model"});
    require_default(json_, "truncation", nullptr, "");
    require_default(json_, "padding", nullptr, "");
    read_model();
    read_normalizer();
    read_pre_tokenizer();
    read_added_tokens();
    parts_.note = note();
    return std::move(parts_);
  }

 private:
  [[noreturn]] void fail(std::string_view part, std::string_view problem) const {
    throw RunError(fmt::format("{}: {}: {}", name_, part, problem),
                   "use a tokenizer.json with byte-level byte pairs, as of GPT-2 or Llama 3");
  }

  [[noreturn]] void fail_value(std::string_view part, const Json& found,
                               std::string_view expected) const {
    const std::string text = found.is_structured()
                                 ? found.type_name()
                                 : found.dump(-1, ' ', false, Json::error_handler_t::replace);
    fail(part, fmt::format("expected {}, found {}", expected, shortened(text)));
  }

  static const Json& value_of(const Json& object, const char* key) {
    static const Json null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
  }

  /// Throws RunError if `json` is not an object, or if it has other keys. `path` is that of the
  /// object with a dot at its end, or empty.
  void require_keys(const Json& json, const std::string& path,
                    std::initializer_list<std::string_view> keys) const {
    if (!json.is_object()) fail_value(path.empty() ? "the file" : path, json, "an object");
    for (const auto& [key, value] : json.items())
      if (std::ranges::find(keys, key) == keys.end())
        fail(path + shortened(key), "this part is not supported");
  }

  /// Throws RunError unless the key is absent, null or `expected`.
  void require_default(const Json& object, const char* key, const Json& expected,
                       const std::string& path) const {
    const Json& value = value_of(object, key);
    if (!value.is_null() && value != expected) fail_value(path + key, value, expected.dump());
  }

  bool flag(const Json& object, const char* key, bool absent, const std::string& path) const {
    const Json& value = value_of(object, key);
    if (!value.is_null() && !value.is_boolean()) fail_value(path + key, value, "true or false");
    return value.is_null() ? absent : value.get<bool>();
  }

  void require_type(const Json& object, std::string_view type, const std::string& path) const {
    if (!object.is_object() || value_of(object, "type") != type)
      fail_value(path + "type", object.is_object() ? value_of(object, "type") : object,
                 fmt::format("\"{}\"", type));
  }

  void read_model() {
    const Json& model = value_of(json_, "model");
    require_keys(model, "model.",
                 {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    if (model.contains("type")) require_type(model, "BPE", "model.");
    require_default(model, "dropout", 0.0, "model.");
    require_default(model, "continuing_subword_prefix", "", "model.");
    require_default(model, "end_of_word_suffix", "", "model.");
    require_default(model, "byte_fallback", false, "model.");
    parts_.ignore_merges = flag(model, "ignore_merges", false, "model.");
    parts_.vocab_name = name_ + ": model.vocab";
    parts_.merges_name = name_ + ": model.merges, number ";
    parts_.vocabulary = read_vocabulary(value_of(model, "vocab"), parts_.vocab_name);
    read_merges(value_of(model, "merges"));
    // With all bytes in the vocabulary, no symbol is unknown.
    if (!has_all_bytes()) require_default(model, "unk_token", nullptr, "model.");
  }

  bool has_all_bytes() const {
    size_t bytes = 0;
    for (const auto& [symbol, id] : parts_.vocabulary) {
      const auto text = symbol.size() <= 2 ? bytes_of_symbol(symbol) : std::nullopt;
      bytes += text && text->size() == 1;
    }
    return bytes == 256;
  }

  void read_merges(const Json& merges) {
    if (!merges.is_array()) fail_value("model.merges", merges, "a list");
    for (const Json& merge : merges) {
      const size_t number = parts_.merges.size() + 1;
      const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                           merge[1].is_string() && merge[0] != "" && merge[1] != "";
      std::optional<Merge> read;
      if (merge.is_string()) read = parse_merge(merge.get_ref<const std::string&>(), number);
      if (is_pair) read = Merge{merge[0].get<std::string>(), merge[1].get<std::string>(), number};
      if (!read) fail(fmt::format("model.merges, number {}", number), "expected a pair of symbols");
      parts_.merges.push_back(std::move(*read));
    }
  }

  void read_normalizer() {
    const Json& normalizer = value_of(json_, "normalizer");
    if (normalizer.is_null()) return;
    require_type(normalizer, "NFC", "normalizer.");
    require_keys(normalizer, "normalizer.", {"type"});
    parts_.normalize = true;
  }

  void read_pre_tokenizer() {
    const Json& json = value_of(json_, "pre_tokenizer");
    if (!json.is_object() || value_of(json, "type") != "Sequence")
      return read_byte_level(json, "pre_tokenizer.");
    require_keys(json, "pre_tokenizer.", {"type", "pretokenizers"});
    const Json& list = value_of(json, "pretokenizers");
    if (!list.is_array() || list.empty() || list.size() > 2)
      fail("pre_tokenizer.pretokenizers", "expected ByteLevel, or Split and ByteLevel");
    if (list.size() == 2) read_split(list[0], "pre_tokenizer.pretokenizers[0].");
    read_byte_level(list.back(), fmt::format("pre_tokenizer.pretokenizers[{}].", list.size() - 1));
  }

  void read_byte_level(const Json& json, const std::string& path) {
    require_type(json, "ByteLevel", path);
    require_keys(json, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (flag(json, "add_prefix_space", true, path))
      fail(path + "add_prefix_space", "expected false");
    if (flag(json, "use_regex", true, path)) parts_.patterns.push_back(Pattern::kGpt2);
  }

  void read_split(const Json& json, const std::string& path) {
    require_type(json, "Split", path);
    require_keys(json, path, {"type", "pattern", "behavior", "invert"});
    const Json& pattern = value_of(json, "pattern");
    require_keys(pattern, path + "pattern.", {"Regex"});
    const Json& expression = value_of(pattern, "Regex");
    const auto known = expression.is_string() ? pattern_of(expression.get_ref<const std::string&>())
                                              : std::nullopt;
    if (!known) fail_value(path + "pattern.Regex", expression, "the pattern of GPT-2 or cl100k");
    parts_.patterns.push_back(*known);
    // The patterns match every character, so that keeping the matches and removing the rest are
    // the same.
    const bool invert = flag(json, "invert", false, path);
    const char* const behavior = invert ? "Removed" : "Isolated";
    if (value_of(json, "behavior") != behavior)
      fail_value(path + "behavior", value_of(json, "behavior"), fmt::format("\"{}\"", behavior));
  }

  void read_added_tokens() {
    const Json& list = value_of(json_, "added_tokens");
    if (list.is_null()) return;
    if (!list.is_array()) fail_value("added_tokens", list, "a list");
    const std::unordered_map<std::string_view, int32_t> ids(parts_.vocabulary.begin(),
                                                            parts_.vocabulary.end());
    for (const Json& json : list) {
      const SpecialToken token =
          read_added_token(json, fmt::format("added_tokens[{}].", parts_.special.size()));
      const auto found = ids.find(token.text);
      if (found != ids.end() && found->second != token.id)
        fail(fmt::format("added_tokens[{}].id", parts_.special.size()),
             fmt::format("`{}` has the id {}, but {} in model.vocab", shortened(token.text),
                         token.id, found->second));
      parts_.special.push_back(token);
    }
  }

  SpecialToken read_added_token(const Json& json, const std::string& path) const {
    require_keys(json, path,
                 {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    for (const char* const key : {"single_word", "lstrip", "rstrip"})
      require_default(json, key, false, path);
    const Json& content = value_of(json, "content");
    if (!content.is_string()) fail_value(path + "content", content, "a text");
    const bool normalized = flag(json, "normalized", !flag(json, "special", false, path), path);
    return {content.get<std::string>(),
            read_id(value_of(json, "id"), fmt::format("{}: {}id", name_, path)), normalized};
  }

  std::string note() const {
    std::vector<std::string> ignored;
    for (const char* const key : {"post_processor", "decoder"})
      if (!value_of(json_, key).is_null()) ignored.emplace_back(key);
    if (ignored.empty()) return {};
    return fmt::format("{}: {} ignored; only `begin` and `end` add ids", name_,
                       join(ignored, " and ") + (ignored.size() > 1 ? " are" : " is"));
  }

  const std::string& name_;
  Json json_;
  BytePairs parts_{.vocab_name = {},
                   .merges_name = {},
                   .vocabulary = {},
                   .merges = {},
                   .special = {},
                   .patterns = {},
                   .note = {}};
};

}  // namespace

std::unique_ptr<Tokenizer> json_tokenizer(const NamedText& file) {
  return make_byte_pair_tokenizer(TokenizerFile(file).read());
}

}  // namespace flow::data
