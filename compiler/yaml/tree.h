// A YAML document as a tree of nodes with places, and as text again. Scalars are untyped text:
// their key determines the type.
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
  Span span;            // scalar: its text with quotes; list, mapping: from first to last character
  std::string scalar;   // kScalar, quotes and escapes resolved
  bool quoted = false;  // kScalar: affects only messages
  bool resolved = false;       // variables were put in: a dollar sign in it or below is one
  std::string unexpanded;      // kScalar: the same with `$env(NAME)` where the environment was put
                               // in, and doubled dollar signs; empty where it was not
  std::vector<Node> items;     // kList
  std::vector<Entry> entries;  // kMapping, in the order of the file

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_mapping() const { return kind == Kind::kMapping; }
  /// The entry of that key, and its value; null if absent or if the node is not a mapping.
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
  /// Its place among the entries of its file, where that is not `key_span`; invalid: it has none.
  std::optional<Span> place = {};
};

/// Nodes that are in no file. `span`: their place in messages.
Node scalar_node(std::string_view text, Span span = {});
Node list_node(std::vector<Node> items, Span span = {});
Node mapping_node(std::vector<Entry> entries = {}, Span span = {});

/// The items of a list, or the node itself. For keys that take one value, or a list of them.
inline std::span<const Node> each_of(const Node& node) {
  return node.is_list() ? std::span<const Node>(node.items) : std::span<const Node>(&node, 1);
}

/// The place of bytes [begin, end) of a scalar whose text was `text` before variables were put in;
/// the whole scalar where escapes or line breaks make the text differ from the source.
Span place_in(const Node& node, std::string_view text, size_t begin, size_t end);
/// The same of the scalar as it is; the whole of it, too, where variables were put in.
inline Span place_in(const Node& node, size_t begin, size_t end) {
  return node.resolved ? node.span : place_in(node, node.scalar, begin, end);
}

/// "a string", "a list", "a mapping"
std::string_view name_of(Kind kind);

/// The text of a job file that reads back as the same tree. Collections that contain only mappings
/// are written in block style, others on one line if they fit.
std::string write(const Node& mapping);

}  // namespace flow::yaml
