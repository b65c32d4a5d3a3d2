// Patterns of array names, and rules for names.
#include "runtime/plan/model/name_pattern.h"

#include <catch2/catch.hpp>
#include <string>

#include "runtime/plan/model/name_rules.h"
#include "tests/unit/plan/corruptions.h"

using namespace flow;
using namespace flow::plan;

namespace {

/// What `to` makes of a name that `from` matches; "-" where it does not match, "?" where the
/// captures do not fit.
std::string renamed(const std::string& from, const std::string& to, const std::string& name) {
  Wildcards wildcards;
  NamePatternError error;
  const auto pattern = parse_pattern(from, wildcards, error);
  const auto target = parse_template(to, wildcards, error);
  REQUIRE(pattern);
  REQUIRE(target);
  const auto captures = pattern->match(name);
  return captures ? target->fill(*captures).value_or("?") : "-";
}

/// The same from the variable back to the array.
std::string turned_round(const std::string& from, const std::string& to, const std::string& name) {
  Wildcards wildcards;
  NamePatternError error;
  const auto pattern = parse_pattern(from, wildcards, error);
  const auto target = parse_template(to, wildcards, error);
  const auto captures = target.value().match(name);
  return captures ? pattern.value().fill(*captures).value_or("?") : "-";
}

std::string pattern_error(const std::string& text) {
  Wildcards wildcards;
  NamePatternError error;
  CHECK_FALSE(parse_pattern(text, wildcards, error));
  CHECK_FALSE(error.hint.empty());
  return error.message;
}

std::string template_error(const std::string& text, const std::string& from = "a.*.**") {
  Wildcards wildcards;
  NamePatternError error;
  REQUIRE(parse_pattern(from, wildcards, error));
  CHECK_FALSE(parse_template(text, wildcards, error));
  CHECK_FALSE(error.hint.empty());
  return error.message;
}

/// The first fault, with its key.
std::string fault_of(const NameRule& rule) {
  const auto faults = faults_of(rule);
  return faults.empty() ? "" : std::string(faults[0].key) + ": " + faults[0].message;
}

}  // namespace

TEST_CASE("a wildcard is a part of one component, and a capture names what it matched", "[plan]") {
  CHECK(renamed("h.*.w", "n/{1}/w", "h.11.w") == "n/11/w");
  CHECK(renamed("h.*.w", "n/{1}/w", "h.11.x.w") == "-");
  CHECK(renamed("h.*.w", "n/{1}/w", "h..w") == "-");
  CHECK(renamed("h.*.w", "n/{1}/w", "h/1/w") == "-");
  CHECK(renamed("layer*_x.*", "{2}/b{1}", "layer12_x.bias") == "bias/b12");
  CHECK(renamed("layer*_x.*", "{2}/b{1}", "layer_x.bias") == "-");
  CHECK(renamed("a*a", "{1}", "aa") == "-");
  CHECK(renamed("a*a", "{1}", "aaa") == "a");
  CHECK(renamed("a.b", "c", "a.b") == "c");
  CHECK(renamed("*", "x/{1}/{1}", "y") == "x/y/y");
  CHECK(renamed("*", "x/{1}", "y.z") == "-");
}

TEST_CASE("two stars are one component or more", "[plan]") {
  CHECK(renamed("**.w", "n/{1}/w", "a.b.c.w") == "n/a/b/c/w");
  CHECK(renamed("**.w", "n/{1}/w", "a/b.w") == "n/a/b/w");
  CHECK(renamed("**.w", "n/{1}/w", "w") == "-");
  CHECK(renamed("x.**", "{1}", "x.y.z") == "y/z");
  CHECK(renamed("x.**.*.w", "{1}/{2}", "x.a.b.3.w") == "a/b/3");
}

TEST_CASE("braces in a rule are alternatives, and a wildcard", "[plan]") {
  CHECK(renamed("h.*.{q,k}.w", "n/{1}/{2}/w", "h.3.k.w") == "n/3/k/w");
  CHECK(renamed("h.*.{q,k}.w", "n/{1}/{2}/w", "h.3.v.w") == "-");
  CHECK(renamed("x{1,12}y", "n/{1}", "x12y") == "n/12");
  CHECK(turned_round("h.*.{q,k}.w", "n/{1}/{2}/w", "n/3/q/w") == "h.3.q.w");
  CHECK(turned_round("h.*.{q,k}.w", "n/{1}/{2}/w", "n/3/v/w") == "?");
  CHECK(pattern_error("a.{q") == "`a.{q` has an unmatched brace in `{q`");
  CHECK(pattern_error("a.q}") == "`a.q}` has an unmatched brace in `q}`");
  CHECK(pattern_error("a.{q,b.c}") == "`a.{q,b.c}` has an unmatched brace in `{q,b`");
  CHECK(pattern_error("{q}") == "`{q}` in `{q}` is not a list of alternatives");
  CHECK(pattern_error("{q,}") == "`{q,}` in `{q,}` is not a list of alternatives");
  CHECK(pattern_error("{q,{k,v}}") == "`{q,{k,v}` in `{q,{k,v}}` is not a list of alternatives");
  CHECK(pattern_error("{q,k}*") == "`{q,k}*` has two wildcards in one component, `{q,k}*`");
}

TEST_CASE("a number is added to a capture, and taken off when a rule is turned round", "[plan]") {
  CHECK(renamed("l.*.w", "n/{1+1}/w", "l.9.w") == "n/10/w");
  CHECK(renamed("l.*.w", "n/{1-1}/w", "l.9.w") == "n/8/w");
  CHECK(renamed("l.*.w", "n/{1-1}/w", "l.0.w") == "?");
  CHECK(renamed("l.*.w", "n/{1+1}/w", "l.x.w") == "?");
  CHECK(turned_round("l.*.w", "n/{1+1}/w", "n/10/w") == "l.9.w");
  CHECK(turned_round("l.*.w", "n/{1+1}/w", "n/0/w") == "-");
  CHECK(turned_round("l.*.w", "n/{1}/{1}", "n/1/1") == "l.1.w");
  CHECK(turned_round("l.*.w", "n/{1}/{1}", "n/1/2") == "-");
  CHECK(turned_round("l.*.w", "n/w", "n/w") == "?");
  CHECK(turned_round("**.w", "n/{1}/w", "n/a/b/w") == "a.b.w");
  CHECK(turned_round("g/**", "n/{1}", "n/a/b") == "g/a/b");
  CHECK(turned_round("**", "n/{1}", "n/a/b") == "a.b");
}

TEST_CASE("invalid patterns and captures are refused", "[plan]") {
  CHECK(pattern_error("") == "a name is empty");
  CHECK(pattern_error("a.{1}") == "`a.{1}` has a capture; expected `*`");
  CHECK(pattern_error("a.*b*") == "`a.*b*` has two wildcards in one component, `*b*`");
  CHECK(pattern_error("a.***") == "`a.***` has two wildcards in one component, `***`");
  CHECK(pattern_error("**.a.**") == "`**.a.**` has two `**`; expected at most one");
  CHECK(pattern_error("*.*.*.*.*.*.*.*.*.*") == "`*.*.*.*.*.*.*.*.*.*` has more than 9 wildcards");
  CHECK(template_error("a/*") == "`a/*` has a wildcard; expected a capture");
  CHECK(template_error("a/{}") == "`{}` in `a/{}` is not a capture");
  CHECK(template_error("a/{1+}") == "`{1+}` in `a/{1+}` is not a capture");
  CHECK(template_error("a/{9999999}") == "`{9999999}` in `a/{9999999}` is not a capture");
  CHECK(template_error("a/{1}{1}") == "`a/{1}{1}` has an invalid component, `{1}{1}`");
  CHECK(template_error("a/{1") == "`a/{1` has an invalid component, `{1`");
  CHECK(template_error("a/1}") == "`a/1}` has an invalid component, `1}`");
  CHECK(template_error("a/{0}") == "`a/{0}` names capture 0, but `from` has 2 wildcards");
  CHECK(template_error("a/{3}") == "`a/{3}` names capture 3, but `from` has 2 wildcards");
  CHECK(template_error("a/x{2}") == "`a/x{2}` has `**` within a component, `x{2}`");
  CHECK(template_error("a/{2+1}") == "`a/{2+1}` has `**` within a component, `{2+1}`");
}

TEST_CASE("each fault of a rule for names is found", "[plan]") {
  CHECK(fault_of({.from = {"a"}, .to = {"b"}}).empty());
  CHECK(fault_of({.from = {"a"}, .to = {}, .ignore = true}).empty());
  CHECK(fault_of({.from = {"a.*", "b.*"}, .to = {"c/{1}"}, .concat = 1, .sizes = {1, 2}}).empty());
  CHECK(fault_of({.from = {}, .to = {"b"}}) == "from: `from` is empty");
  CHECK(fault_of({.from = {"a"}, .to = {}}) == "to: a rule requires `to` or `ignore`");
  CHECK(fault_of({.from = {"a"}, .to = {"b"}, .ignore = true}) ==
        "to: `to` conflicts with `ignore`");
  CHECK(fault_of({.from = {"a.*", "b"}, .to = {"c"}, .concat = 0}) ==
        "from: `b` has other wildcards than `a.*`");
  CHECK(fault_of({.from = {"a", "b"}, .to = {"c"}}) == "from: 2 names in `from` without `concat`");
  CHECK(fault_of({.from = {"a.b", "a.b"}, .to = {"c"}, .concat = 0}) ==
        "from: duplicate name `a.b` in `from`");
  CHECK(fault_of({.from = {"a"}, .to = {"c"}, .concat = 0}) ==
        "concat: 1 name in `from` with `concat`");
  CHECK(fault_of({.from = {"a"}, .to = {"b", "c"}}) ==
        "to: 2 names in `to` without `split` or `copy`");
  CHECK(fault_of({.from = {"a"}, .to = {"b"}, .copy = true}) ==
        "copy: 1 name in `to` with `split` or `copy`");
  CHECK(fault_of({.from = {"a"}, .to = {"b", "b"}, .copy = true}) ==
        "to: duplicate name `b` in `to`");
  CHECK(fault_of({.from = {"a", "b"}, .to = {"c", "d"}, .concat = 0, .split = 0}) ==
        "split: `split` conflicts with `concat`");
  CHECK(fault_of({.from = {"a"}, .to = {"b", "c"}, .split = 0, .copy = true}) ==
        "copy: `copy` conflicts with `split`");
  CHECK(fault_of({.from = {"a"}, .to = {"../b"}}) == "to: `../b` cannot be the name of a variable");
  CHECK(fault_of({.from = {"a"}, .to = {"b"}, .perm = {0, 2}}) ==
        "perm: `perm` is [0, 2]; expected each axis from 0 to 1 once");
  CHECK(fault_of({.from = {"a"}, .to = {"b", "c"}, .perm = {1, 0}, .split = 2}) ==
        "split: `split` is 2; expected an axis from 0 to 1");
  CHECK(fault_of({.from = {"a"}, .to = {"b"}, .sizes = {1}}) == "sizes: `sizes` requires `concat`");
  CHECK(fault_of({.from = {"a", "b"}, .to = {"c"}, .concat = 0, .sizes = {1}}) ==
        "sizes: `sizes` has 1 number for 2 arrays");
  CHECK(fault_of({.from = {"a", "b"}, .to = {"c"}, .concat = 0, .sizes = {1, 0}}) ==
        "sizes: `sizes` has a number below 1");
}

TEST_CASE("a plan's rules for names can be trusted", "[plan]") {
  sample::check_corruptions({
      {"a rule for names: a rule requires `to` or `ignore`",
       [](Job& j) { j.run.checkpoint.names = {{.from = {"a"}, .to = {}}}; }},
      {"a rule for names: `a/{1}` names capture 1",
       [](Job& j) { j.run.checkpoint.names = {{.from = {"a"}, .to = {"a/{1}"}}}; }},
  });
}
