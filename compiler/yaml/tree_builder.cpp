// Builds the tree from YAML events. The parser reports only where values start, as byte offsets;
// the ends come from the tokens.
#include "compiler/yaml/parser.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace flow::yaml {
namespace {

constexpr size_t kDeepest = 64;

/// An exception that stops the parser when further reading makes no sense. build_tree() catches it.
struct Stop {};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_null_word(std::string_view text) {
  return text == "~" || text == "null" || text == "Null" || text == "NULL";
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, int32_t id, const std::vector<Token>& tokens,
              const std::vector<Span>& splits, uint32_t shift, Parsed& parsed)
      : text_(text), id_(id), tokens_(tokens), splits_(splits), shift_(shift), parsed_(parsed) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    const uint32_t begin = content_begin(mark);
    const Token* token = token_at(tokens_, begin);
    const bool written = token && begin >= cursor_ && token->kind == TokenKind::kPlain &&
                         is_null_word(text_.substr(begin, token->end - begin));
    if (at_key())
      empty_key(begin, written ? token->end : begin);
    else
      add(empty_value(written ? span(begin, token->end) : Span{}));
    if (written) cursor_ = token->end;
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    const uint32_t begin = offset_of(mark);
    const Token* token = token_at(tokens_, begin);
    Node node;
    node.span = span(begin, token ? token->end : begin + 1);
    report(alias_error(node.span, text_of(node.span)));
    cursor_ = std::max(cursor_, node.span.end);
    add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    const uint32_t begin = content_begin(mark);
    const Token* token = token_at(tokens_, begin);
    Node node;
    node.scalar = value;
    node.quoted = token && is_quoted(*token);
    const bool one_token = token && (node.quoted || token->kind == TokenKind::kBlockText);
    node.span = span(begin, one_token ? token->end : end_of_plain(begin, value));
    cursor_ = std::max(cursor_, node.span.end);
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(Kind::kList, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(Kind::kMapping, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A list or mapping that is being read.
  struct Frame {
    Node node;
    // It is a key of the mapping around it, which is an error.
    bool is_key = false;
    bool at_key = false;  // for a mapping whose next event is a key
    std::string key;
    Span key_span;
    std::unordered_map<std::string, Span> keys;  // the keys so far
    bool list_open = false;                      // its last value is a list without brackets
  };

  Span span(uint32_t begin, uint32_t end) const { return {id_, begin, end}; }
  std::string_view text_of(Span span) const {
    return text_.substr(span.begin, span.end - span.begin);
  }
  uint32_t offset_of(const YAML::Mark& mark) const {
    const auto offset = static_cast<uint32_t>(std::max(mark.pos, 0)) + shift_;
    return std::min(offset, static_cast<uint32_t>(text_.size()));
  }
  void report(Diag diag) { parsed_.diags.push_back(std::move(diag)); }
  bool at_key() const { return !frames_.empty() && frames_.back().at_key; }

  /// Returns the beginning of a value, after its tag and anchor, which it reports.
  uint32_t content_begin(const YAML::Mark& mark) {
    uint32_t begin = offset_of(mark);
    for (const Token* token = token_at(tokens_, begin); token && is_property(*token);) {
      report_property(*token);
      do ++token;
      while (token != tokens_.data() + tokens_.size() && token->kind == TokenKind::kComment);
      if (token == tokens_.data() + tokens_.size()) return static_cast<uint32_t>(text_.size());
      begin = token->begin;
    }
    return begin;
  }

  static bool is_property(const Token& token) {
    return token.kind == TokenKind::kTag || token.kind == TokenKind::kAnchor;
  }

  void report_property(const Token& token) {
    const Span where = span(token.begin, token.end);
    report(token.kind == TokenKind::kTag ? tag_error(where, text_of(where))
                                         : anchor_error(where, text_of(where)));
  }

  /// Returns the end of unquoted text. It has no escapes, so it ends after the last of its
  /// characters. Breaks between its lines are folded, so white space is skipped.
  uint32_t end_of_plain(uint32_t begin, std::string_view value) const {
    uint32_t end = begin;
    for (const char c : value) {
      if (is_space(c)) continue;
      uint32_t at = end;
      while (at < text_.size() && is_space(text_[at])) ++at;
      if (at == text_.size() || text_[at] != c) break;
      end = at + 1;
    }
    return end;
  }

  void open(Kind kind, const YAML::Mark& mark) {
    const uint32_t begin = content_begin(mark);
    if (frames_.size() == kDeepest) {
      report(nesting_error(span(begin, begin + 1), kDeepest));
      throw Stop{};
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.span = span(begin, begin);
    frame.is_key = at_key();
    frame.at_key = kind == Kind::kMapping;
    frames_.push_back(std::move(frame));
    if (begin < text_.size() && (text_[begin] == '{' || text_[begin] == '['))
      cursor_ = std::max(cursor_, begin + 1);
  }

  void close() {
    end_list(frames_.back());
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    const uint32_t begin = frame.node.span.begin;
    const Token* token = token_at(tokens_, begin);
    if (token && token->kind == TokenKind::kOpen) cursor_ = end_of_flow();
    frame.node.span.end = std::max(begin, cursor_);
    if (frame.is_key) {
      complex_key(frame.node.span);
      frames_.back().at_key = false;
    } else {
      add(std::move(frame.node));
    }
  }

  /// Returns the end of the bracket that closes the list or mapping whose last value ends at the
  /// cursor.
  uint32_t end_of_flow() const {
    const Token* token = next_token(cursor_);
    const Token* end = tokens_.data() + tokens_.size();
    while (token && token != end && token->kind != TokenKind::kClose) ++token;
    return token && token != end ? token->end : cursor_;
  }

  void add(Node node) {
    if (node.is_scalar() && in_split(node.span)) parsed_.pieces.push_back(node.span);
    if (frames_.empty()) {
      parsed_.root = std::move(node);
      parsed_.empty = false;
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.is_list()) {
      frame.node.items.push_back(std::move(node));
    } else if (frame.at_key) {
      take_key(frame, std::move(node));
    } else {
      frame.at_key = true;
      if (!frame.key_span.valid()) return;  // its key was an error
      frame.node.entries.push_back({std::move(frame.key), frame.key_span, std::move(node)});
    }
  }

  void take_key(Frame& frame, Node node) {
    frame.at_key = false;
    frame.key = std::move(node.scalar);
    frame.key_span = node.span;
    if (in_split(node.span)) return drop_key();
    if (!node.quoted && take_into_list_before(frame)) return drop_key();
    end_list(frame);
    if (behind_question_mark(node.span.begin)) return complex_key(node.span);
    if (!node.quoted && frame.key == "<<") {
      report(merge_key_error(node.span));
      return drop_key();
    }
    const auto [first, is_new] = frame.keys.emplace(frame.key, node.span);
    if (is_new) return;
    report(duplicate_key_error(node.span, frame.key, first->second));
    drop_key();
  }

  /// In `perm: 2, 0, 1`, all numbers except the first arrive as keys. Appends such a key to the
  /// first number, which makes the intended list.
  bool take_into_list_before(Frame& frame) const {
    const Token* next = next_token(frame.key_span.end);
    if (frame.node.entries.empty() || (next && next->kind == TokenKind::kColon)) return false;
    Node& value = frame.node.entries.back().value;
    if (!is_comma(value.span.end, frame.key_span.begin)) return false;
    const bool taken = take_into_list(value, frame.list_open, frame.key, frame.key_span);
    frame.list_open |= taken;
    return taken;
  }

  /// Returns true if there is only a comma between the two offsets.
  bool is_comma(uint32_t begin, uint32_t end) const {
    const Token* comma = next_token(begin);
    const Token* behind = comma ? next_token(comma->end) : nullptr;
    return behind && comma->kind == TokenKind::kComma && behind->begin == end;
  }

  void end_list(Frame& frame) {
    if (!std::exchange(frame.list_open, false)) return;
    const Entry& entry = frame.node.entries.back();
    report(missing_brackets_error(entry.value.span, entry.key, text_of_items(entry.value),
                                  text_of(entry.value.span)));
  }

  /// Keeps the entry that this key begins out of the tree.
  void drop_key() { frames_.back().key_span = {}; }

  bool behind_question_mark(uint32_t begin) const {
    while (begin > 0 && is_space(text_[begin - 1])) --begin;
    const Token* token = begin > 0 ? token_at(tokens_, begin - 1) : nullptr;
    return token && token->kind == TokenKind::kQuestion;
  }

  void complex_key(Span where) {
    report(complex_key_error(where));
    drop_key();
  }

  void empty_key(uint32_t begin, uint32_t end) {
    frames_.back().at_key = false;
    drop_key();
    const Span where = span(begin, std::max(end, std::min<uint32_t>(begin + 1, text_.size())));
    if (!in_split(where)) report(empty_key_error(where, text_of(where)));
  }

  /// Returns the node for a missing value, or for `null` at `word`.
  Node empty_value(Span word) {
    Node node;
    node.span = word;
    if (frames_.empty()) return node;
    const Frame& frame = frames_.back();
    if (frame.node.is_list())
      empty_item(node);
    else if (frame.key_span.valid())
      empty_entry(node);
    return node;
  }

  void empty_item(Node& node) {
    if (!node.span.valid()) node.span = place_of_empty_item();
    if (!in_split(node.span)) report(empty_item_error(node.span));
  }

  /// Returns the span of the dash, comma or bracket that follows the previous item.
  Span place_of_empty_item() {
    const Token* token = next_token(cursor_);
    if (!token) return span(cursor_, cursor_);
    cursor_ = token->end;
    return span(token->begin, token->end);
  }

  void empty_entry(Node& node) {
    Frame& frame = frames_.back();
    if (node.span.valid())
      return report(null_value_error(node.span, text_of(node.span), frame.key));
    node.span = frame.key_span;
    const Token* colon = next_token(frame.key_span.end);
    if (colon && colon->kind == TokenKind::kColon)
      return report(empty_value_error(node.span, frame.key, colon->in_flow));
    report(missing_colon_error(node.span, frame.key));
    // Continues with the intended key, so that `filters` in {filters:32} is not reported as
    // missing.
    const size_t inner = colon_inside(frame.key);
    if (inner == std::string::npos) return;
    node.scalar = frame.key.substr(inner + 1);
    frame.key.resize(inner);
  }

  /// Returns the first token at or after the offset that is not a comment, or null.
  const Token* next_token(uint32_t offset) const {
    auto token = std::lower_bound(
        tokens_.begin(), tokens_.end(), offset,
        [](const Token& candidate, uint32_t begin) { return candidate.begin < begin; });
    while (token != tokens_.end() && token->kind == TokenKind::kComment) ++token;
    return token == tokens_.end() ? nullptr : &*token;
  }

  bool in_split(Span piece) const {
    const auto after =
        std::upper_bound(splits_.begin(), splits_.end(), piece.begin,
                         [](uint32_t offset, const Span& split) { return offset < split.begin; });
    return after != splits_.begin() && piece.begin < (after - 1)->end;
  }

  std::string_view text_;
  int32_t id_;
  const std::vector<Token>& tokens_;
  const std::vector<Span>& splits_;
  uint32_t shift_;  // added to the parser's offsets
  Parsed& parsed_;
  std::vector<Frame> frames_;
  uint32_t cursor_ = 0;  // the end of the last thing that was read
};

/// Receives the events after the first document.
class Rest : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { begin = mark.pos; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  int begin = -1;
};

/// Records whether any text follows the document. This text may be invalid YAML.
void look_behind(YAML::Parser& parser, uint32_t shift, Parsed& parsed) {
  Rest rest;
  try {
    parser.HandleNextDocument(rest);
  } catch (const YAML::ParserException& error) {
    rest.begin = error.mark.pos;
  }
  parsed.rest = rest.begin >= 0;
  parsed.rest_offset = static_cast<uint32_t>(std::max(rest.begin, 0)) + shift;
}

}  // namespace

Parsed build_tree(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                  const std::vector<Span>& splits) {
  const std::string_view text = sources[id].text();
  const uint32_t shift = sources[id].line_start(1);  // the parser skips a byte order mark
  Parsed parsed;
  TreeBuilder builder(text, id, tokens, splits, shift, parsed);
  std::istringstream stream{std::string(text.substr(shift))};
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    look_behind(parser, shift, parsed);
  } catch (const Stop&) {
    parsed.too_deep = true;
  } catch (const YAML::ParserException& error) {
    parsed.syntax_error = true;
    const auto offset = static_cast<uint32_t>(std::max(error.mark.pos, 0)) + shift;
    parsed.error_offset = std::min(offset, static_cast<uint32_t>(text.size()));
  }
  return parsed;
}

}  // namespace flow::yaml
