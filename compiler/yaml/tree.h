// Declares a YAML document as a tree of nodes with positions, and the conversion back to text.
// Scalars are untyped text, because their key determines the type.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/source/source.h"

namespace flow::yaml {

enum class Kind { kScalar, kList, kMapping };

struct Entry;

struct Node {
  Kind kind = Kind::kScalar;
  Span span;            // for a scalar, including quotes
  std::string scalar;   // of a kScalar, without quotes and escapes
  bool quoted = false;  // of a kScalar; affects only messages
  // Variables were substituted, so a dollar sign in this node or below is plain text.
  bool resolved = false;
  // For a kScalar whose text contained `$env(NAME)`: the text before its substitution, with doubled
  // dollar signs. Otherwise empty.
  std::string unexpanded;
  std::vector<Node> items;     // of a kList
  std::vector<Entry> entries;  // of a kMapping, in the order of the file

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_mapping() const { return kind == Kind::kMapping; }
  /// Return the entry with that key, or its value. Null if there is none or if the node is not a
  /// mapping.
  const Entry* find_entry(std::string_view key) const;
  Entry* find_entry(std::string_view key);
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  void erase(std::string_view key);
};

struct Entry {
  std::string key;
  Span key_span;
  Node value;
  /// The position among the entries of its file, if it differs from `key_span`. An invalid span
  /// means no position.
  std::optional<Span> place = {};
};

/// Make nodes that are not part of a file. `span` is their position in messages.
Node scalar_node(std::string_view text, Span span = {});
Node list_node(std::vector<Node> items, Span span = {});
Node mapping_node(std::vector<Entry> entries = {}, Span span = {});

/// Returns the items of a list, or the node itself. For keys that accept one value or a list of
/// values.
inline std::span<const Node> each_of(const Node& node) {
  return node.is_list() ? std::span<const Node>(node.items) : std::span<const Node>(&node, 1);
}

/// Returns the position of bytes [begin, end) of a scalar whose text was `text` before variables
/// were substituted. Returns the whole scalar if escapes or line breaks make the text differ from
/// the source.
Span place_in(const Node& node, std::string_view text, size_t begin, size_t end);
/// Returns the same for the current text of the scalar. Also returns the whole scalar if variables
/// were substituted.
inline Span place_in(const Node& node, size_t begin, size_t end) {
  return node.resolved ? node.span : place_in(node, node.scalar, begin, end);
}

/// Returns "a string", "a list" or "a mapping".
std::string_view name_of(Kind kind);

/// Returns the text of a job file that is read back as the same tree. Collections that contain only
/// mappings are written in block style, and others on one line if they fit.
std::string write(const Node& mapping);

}  // namespace flow::yaml
