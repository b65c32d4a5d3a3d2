// Texts that are not job files, and job files that were tampered with: an error, never a crash.
#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "compiler/yaml/parse.h"
#include "compiler/yaml/tree.h"

using namespace flow;

namespace {

constexpr std::string_view kJobFile = R"yaml(# a job
flow: 1
vars: {batch: 100, lr: 0.1, init: {type: truncated_normal, stddev: 0.1}}
data:
  train:
    images: {npy: "x.npy", scale: 1/255}   # columns
    note: |
      two
        lines
networks:
  net:
    graph:
      conv1: {op: conv2d, filters: "$(max(8, batch))",
                           kernel_size : [ 5, 5 ], kernel_initializer : $init
}
    output: 'conv1'
jobs:
  train:
    hooks:
      - {watch: "**/weight", every: 10}
      - watch: conv1
        to: [npy, {type: print,
             label: "a b"}]
    run: {epochs: $env(EPOCHS:-1)}
)yaml";

constexpr std::string_view kPieces[] = {"\n",     "\n  ",  " ",
                                        "\t",     "{",     "}",
                                        "[",      "]",     ",",
                                        ":",      ": ",    "- ",
                                        "? ",     "\"",    "'",
                                        "|",      ">",     "#",
                                        " #",     "&a",    "*a",
                                        "!x",     "<<: ",  "---",
                                        "...",    "%",     "@",
                                        "`",      "\\",    "~",
                                        "null",   "\r\n",  "\xEF\xBB\xBF",
                                        "\u4e2d", "$(",    "$env(a, b)",
                                        "\x01",   "\xff",  "a:1",
                                        "|2\n",   "\"\\x", "''"};

/// Every span of the tree lies in the text, and around those below it.
void check_spans(const yaml::Node& node, size_t size) {
  REQUIRE(node.span.begin <= node.span.end);
  REQUIRE(node.span.end <= size);
  for (const yaml::Node& item : node.items) check_spans(item, size);
  for (const yaml::Entry& entry : node.entries) {
    REQUIRE(entry.key_span.begin <= entry.key_span.end);
    REQUIRE(entry.key_span.end <= size);
    check_spans(entry.value, size);
  }
}

void survive(const std::string& text) {
  CAPTURE(text);
  Sources sources;
  const int32_t id = sources.add("a.yaml", text);
  Diags diags(sources);
  const yaml::Node root = yaml::parse(sources, id, diags);
  check_spans(root, text.size());
  REQUIRE((diags.has_errors() || root.is_mapping()));
  REQUIRE(diags.render().empty() == diags.empty());
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}
  std::string operator()(std::string text) {
    for (size_t edits = 1 + below(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  void edit(std::string& text) {
    const size_t at = below(text.size() + 1);
    switch (below(4)) {
      case 0:
        text.erase(at, 1 + below(8));
        break;
      case 1:
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
      case 2:
        text.resize(at);
        break;
      default:
        text.insert(at, kPieces[below(std::size(kPieces))]);
    }
  }
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("A job file that was tampered with never crashes the parser", "[yaml]") {
  const auto start = std::chrono::steady_clock::now();
  for (unsigned seed = 0; seed < 6000; ++seed) {
    survive(Mutator(seed)(std::string(kJobFile)));
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(2)) break;
  }
}

TEST_CASE("Any short text is read or refused", "[yaml]") {
  Mutator mutate(1);
  for (int i = 0; i < 3000; ++i) survive(mutate(mutate("")));
}

TEST_CASE("Long monotonous texts take no longer than their length", "[yaml]") {
  for (const std::string_view piece : kPieces) {
    std::string text = "a: ";
    while (text.size() < 100'000) text += piece;
    survive(text);
    survive("a: [" + text);
  }
}
