// What every reader of the job file shares: where errors go, where substituted values come from,
// the notes found, and the keys of a mapping.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/job/tables/keys.h"
#include "compiler/source/source.h"
#include "compiler/yaml/tree.h"

namespace flow::job {

/// A text of the file with its place: the key of an entry, the name of a tensor.
struct Name {
  std::string text;
  Span span;
};

/// The variable, and the place of its value, for each place where it is used.
class Origins {
 public:
  void add(Span use, std::string variable, Span value);
  /// Labels the origin of the value at `use`, if it was substituted.
  void explain(Span use, Diag& diag) const;

 private:
  struct Origin {
    std::string variable;
    Span value;
  };
  std::map<std::pair<int32_t, uint32_t>, Origin> by_use_;
};

/// The place of what another mapping that was laid over this one brought, since that is what
/// changed; else that of the node.
Span changed_at(const yaml::Node& node);

class Reader {
 public:
  Reader(Sources& all, Diags& to, int32_t job_file) : sources(all), diags(to), file(job_file) {}

  Sources& sources;
  Diags& diags;
  const int32_t file;       // the job file's source
  bool is_job_file = true;  // else hints do not point to other keys of job files
  Origins origins;
  std::vector<std::string> notes;  // `note:` texts, in the order of reading

  /// An error at a value; where the value came from a variable, that is shown too.
  Diag& error(Diagnosis diagnosis, Span span, std::string message);
  Diag& error(Diagnosis diagnosis, const yaml::Node& node, std::string message) {
    return error(diagnosis, changed_at(node), std::move(message));
  }
  /// `place`: a span or a node.
  template <typename Place, typename... Args>
  requires(sizeof...(Args) > 0) Diag& error(Diagnosis diagnosis, const Place& place,
                                            fmt::format_string<Args...> format, Args&&... args) {
    return error(diagnosis, place, fmt::format(format, std::forward<Args>(args)...));
  }

  /// True when the node is of that kind; else an error: "`inputs` is a string; expected a list".
  /// `hint`: what to write instead, perhaps.
  bool expect(const yaml::Node& node, yaml::Kind kind, std::string_view what,
              std::string hint = {});

  /// True when the key can be a name; else an error.
  bool check_name(const Name& name);

  /// The entries of a mapping without its notes, which are kept in passing. An error, and none, for
  /// a node of another kind; `hint`: see expect.
  std::vector<std::reference_wrapper<const yaml::Entry>> entries(const yaml::Node& node,
                                                                 std::string_view what,
                                                                 std::string hint = {});

  /// True for `note:` of a mapping. Keeps the text; reports another kind of value.
  bool take_note(const yaml::Entry& entry);
};

/// The hint for a mapping that is written as a list.
inline constexpr const char* kWithoutDashes =
    "write the entries without dashes, aligned in one column";

/// Words that cannot be names, because they mean something else there.
std::span<const std::string_view> reserved_names();

/// The text, with quotes where it has some.
std::string as_written(const yaml::Node& scalar);

/// For a mapping in the place of a list that has such items: "write `[{watch: ...}]`"; empty for
/// others.
std::string hint_for_item(const yaml::Node& node);

/// "LEAD `a`, `b` and `c`"; of many, the first.
std::string listed(std::string_view lead, const std::vector<std::string>& words);

/// "did you mean `x`?", or where nothing is near: "LEAD `a`, `b` and `c`"; empty without
/// candidates or a lead.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates,
                       std::string_view lead = {});

/// Suggested keys for misspelt ones: these do not count as missing.
class MeantKeys {
 public:
  /// As `suggestion`; remembers the first suggested key.
  std::string suggest(std::string_view word, const std::vector<std::string>& candidates,
                      std::string_view lead);
  bool contains(std::string_view key) const { return keys_.contains(key); }

 private:
  std::set<std::string, std::less<>> keys_;
};

/// A mapping whose keys a table defines. Unknown keys are errors at once, missing ones when asked
/// for.
class Fields {
 public:
  /// `owner`: where a missing key is reported, the key of the mapping. `what`: "a hook". A node
  /// of another kind is an error and has no keys.
  Fields(Reader& reader, const yaml::Node& node, Span owner, std::string what,
         std::vector<KeyDef> keys);
  Fields(Reader& reader, const yaml::Node& node, Span owner, const Section& section)
      : Fields(reader, node, owner, section.what, section.keys) {}

  /// The value, or null: no key that the table lacks has one.
  const yaml::Node* find(std::string_view key) const;
  /// Does the table have the key?
  bool has(std::string_view key) const { return find_key(keys_, key); }
  /// The value. Reports a missing key, unless it was suggested for a misspelt one or the node is
  /// not a mapping.
  const yaml::Node* require(std::string_view key) const;
  /// The place of the key, or of the owner if it is absent.
  Span key_span(std::string_view key) const;
  Span owner() const { return owner_; }
  Reader& reader() const { return reader_; }
  bool is_mapping() const { return node_.is_mapping(); }
  const KeyDef& definition(std::string_view key) const;

  // The value, read by the table. Reports errors and missing required keys; absent or wrong values
  // become the default, or nothing.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::string> word(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  /// The enumerator whose position in E the word has in the table.
  template <typename E>
  E enumerator(std::string_view key) const {
    return enumerator_of<E>(definition(key).words, *word(key));
  }

 private:
  const yaml::Node* given(const KeyDef& def) const;
  std::string hint_for_unknown(const std::string& key, const std::vector<std::string>& known);

  Reader& reader_;
  const yaml::Node& node_;
  Span owner_;
  std::string what_;
  std::vector<KeyDef> keys_;
  MeantKeys meant_;
};

}  // namespace flow::job
