// The networks of a file. Each is read once for every set of arguments that it is called with, its
// params put in like variables.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/job/read/job.h"
#include "compiler/job/text/vars.h"

namespace flow::job {

/// What callers know of a network.
struct Signature {
  struct Param {
    Name name;
    std::optional<yaml::Node> fallback;  // nothing: `required`
  };
  Name name;
  std::vector<Name> inputs;
  std::vector<Param> params;
};

using Arguments = std::vector<std::pair<std::string, yaml::Node>>;

class Networks {
 public:
  Networks(Reader& reader, Variables& variables) : reader_(reader), variables_(variables) {}

  /// `networks:`. Reports what is wrong with the signatures, and reads those without params.
  void declare(const yaml::Node& section);
  /// The network of that name, or null.
  const Signature* find(std::string_view name) const;
  std::vector<std::string> names() const;
  /// The index in made() of a network as `arguments` make it. `call` is where it is called, by an
  /// entry of a network that is being read or of a job. Nothing after an error, such as a network
  /// that calls itself. REQUIRES: each is one of its params, and none is missing.
  std::optional<size_t> call(const Name& call, const Arguments& arguments);
  /// Reads networks without a call. Skips checks that depend on a required param.
  void read_uncalled();
  /// Those that no entry calls.
  std::vector<Name> uncalled() const;

  std::vector<Network>& made() { return made_; }
  Variables& variables() { return variables_; }

 private:
  struct Declaration {
    Signature signature;
    const yaml::Node* node = nullptr;  // the network's mapping
    bool called = false;
    bool open = false;                    // being read
    std::map<std::string, size_t> known;  // by arguments: indices in made_
  };

  void declare_one(const yaml::Entry& entry);
  void read_params(const yaml::Node& node, Signature& signature);
  void check_taken(const Name& name, std::string_view what);
  std::optional<size_t> read(Declaration& declaration, const Arguments& arguments, Span call);
  Network read_body(const Declaration& declaration, const Locals& locals);
  bool may_read(const Declaration& declaration, Span call);
  void report_recursion(const Declaration& declaration, Span call);

  Reader& reader_;
  Variables& variables_;
  std::deque<Declaration> declarations_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::vector<Network> made_;
  std::vector<std::string> path_;  // of networks that are being read
};

}  // namespace flow::job
