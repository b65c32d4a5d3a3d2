// Declares what all readers of the job file share: the destination of errors, the origins of
// substituted values, the collected notes, and the keys of a mapping.
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

/// A text of the file with its position, such as the key of an entry or the name of a tensor.
struct Name {
  std::string text;
  Span span;
};

/// Stores, for each place that uses a variable, the variable and the position of its value.
class Origins {
 public:
  void add(Span use, std::string variable, Span value);
  /// Adds a label with the origin of the value at `use`, if it was substituted.
  void explain(Span use, Diag& diag) const;

 private:
  struct Origin {
    std::string variable;
    Span value;
  };
  std::map<std::pair<int32_t, uint32_t>, Origin> by_use_;
};

/// Returns the position of a value that another mapping has merged into this one, because this
/// value is what changed. Returns the position of the node if there is none.
Span changed_at(const yaml::Node& node);

class Reader {
 public:
  Reader(Sources& all, Diags& to, int32_t job_file) : sources(all), diags(to), file(job_file) {}

  Sources& sources;
  Diags& diags;
  const int32_t file;       // the source of the job file
  bool is_job_file = true;  // if false, hints mention no other keys of job files
  Origins origins;
  std::vector<std::string> notes;  // the texts of `note:`, in the order of reading

  /// Reports an error at a value. If the value comes from a variable, the message also shows the
  /// variable.
  Diag& error(Diagnosis diagnosis, Span span, std::string message);
  Diag& error(Diagnosis diagnosis, const yaml::Node& node, std::string message) {
    return error(diagnosis, changed_at(node), std::move(message));
  }
  /// `place` is a span or a node.
  template <typename Place, typename... Args>
  requires(sizeof...(Args) > 0) Diag& error(Diagnosis diagnosis, const Place& place,
                                            fmt::format_string<Args...> format, Args&&... args) {
    return error(diagnosis, place, fmt::format(format, std::forward<Args>(args)...));
  }

  /// Returns true if the node is of that kind. Otherwise reports an error such as "`inputs` is a
  /// string; expected a list". `hint` can suggest a replacement.
  bool expect(const yaml::Node& node, yaml::Kind kind, std::string_view what,
              std::string hint = {});

  /// Returns true if the key can be a name. Otherwise reports an error.
  bool check_name(const Name& name);

  /// Returns the entries of a mapping except its notes, which are stored in `notes`. For a node of
  /// another kind, reports an error and returns no entries. `hint` is passed to expect().
  std::vector<std::reference_wrapper<const yaml::Entry>> entries(const yaml::Node& node,
                                                                 std::string_view what,
                                                                 std::string hint = {});

  /// Returns true for the key `note:` of a mapping. Stores its text, and reports a value of another
  /// kind.
  bool take_note(const yaml::Entry& entry);
};

/// The hint for a mapping that is written as a list.
inline constexpr const char* kWithoutDashes =
    "write the entries without dashes, aligned in one column";

/// Returns the words that cannot be names, because they have another meaning in job files or in
/// YAML.
std::span<const std::string_view> reserved_names();

/// Returns the text, with quotes if it is quoted in the file.
std::string as_written(const yaml::Node& scalar);

/// Returns the hint "write `[{watch: ...}]`" for a mapping that appears in place of a list of
/// mappings. Returns an empty text for other nodes.
std::string hint_for_item(const yaml::Node& node);

/// Returns "LEAD `a`, `b` and `c`". A long list is cut after its first words.
std::string listed(std::string_view lead, const std::vector<std::string>& words);

/// Returns "did you mean `x`?". If no candidate is similar, returns "LEAD `a`, `b` and `c`", or an
/// empty text without candidates or without a lead.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates,
                       std::string_view lead = {});

/// Stores the keys that were suggested for misspelled ones, so that these are not reported as
/// missing too.
class MeantKeys {
 public:
  /// Returns the same text as suggestion(), and stores the first suggested key.
  std::string suggest(std::string_view word, const std::vector<std::string>& candidates,
                      std::string_view lead);
  bool contains(std::string_view key) const { return keys_.contains(key); }

 private:
  std::set<std::string, std::less<>> keys_;
};

/// A mapping whose keys a table defines. Unknown keys are reported in the constructor, and missing
/// ones when they are read.
class Fields {
 public:
  /// `owner` is the place where a missing key is reported, usually the key of the mapping. `what`
  /// names the mapping, such as "a hook". A node of another kind is an error and has no keys.
  Fields(Reader& reader, const yaml::Node& node, Span owner, std::string what,
         std::vector<KeyDef> keys);
  Fields(Reader& reader, const yaml::Node& node, Span owner, const Section& section)
      : Fields(reader, node, owner, section.what, section.keys) {}

  /// Returns the value, or null if the key is absent or not in the table.
  const yaml::Node* find(std::string_view key) const;
  /// Returns true if the table contains the key.
  bool has(std::string_view key) const { return find_key(keys_, key); }
  /// Returns the value. Reports a missing key, unless it was suggested for a misspelled one or the
  /// node is not a mapping.
  const yaml::Node* require(std::string_view key) const;
  /// Returns the position of the key, or of the owner if the key is absent.
  Span key_span(std::string_view key) const;
  Span owner() const { return owner_; }
  Reader& reader() const { return reader_; }
  bool is_mapping() const { return node_.is_mapping(); }
  const KeyDef& definition(std::string_view key) const;

  // The following functions return the value as the table defines it. They report errors and
  // missing required keys. An absent or invalid value becomes the default, or nothing if there is
  // no default.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::string> word(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  /// Returns the enumerator of E at the position of the word in the table.
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
