// Looking things up in a YAML tree.
#include "compiler/yaml/tree.h"

namespace flow::yaml {

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kList:
      return "a list";
    case Kind::kMapping:
      return "a mapping";
    case Kind::kScalar:
      break;
  }
  return "a text";
}

}  // namespace flow::yaml
