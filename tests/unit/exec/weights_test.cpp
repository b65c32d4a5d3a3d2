// Arrays of other programs as variables, by rules for names, and back.
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>

#include "runtime/base/error.h"
#include "runtime/exec/weights/name_map.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

/// Arrays in memory: each has elements of its own.
class HeldVariables : public StoredVariables {
 public:
  void add(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32) {
    Array array(dtype, shape);
    if (dtype == DType::kFloat32) std::ranges::generate(array.as<float>(), [&] { return next_++; });
    set(name, std::move(array));
  }
  void set(const std::string& name, Array array) {
    if (arrays_.insert_or_assign(name, std::move(array)).second) names_.push_back(name);
  }

  const fs::path& path() const override { return path_; }
  std::vector<Item> items() const override {
    std::vector<Item> items;
    for (const std::string& name : names_)
      items.push_back({name, arrays_.at(name).dtype(), arrays_.at(name).shape()});
    return items;
  }
  Array read(const std::string& name) const override { return arrays_.at(name); }

 private:
  fs::path path_ = "held";
  std::vector<std::string> names_;  // in the order in which they were added
  std::map<std::string, Array> arrays_;
  float next_ = 1;
};

plan::Job job_with(std::vector<plan::NameRule> rules) {
  plan::Job job = make_job(false, 1);
  job.run.checkpoint.names = std::move(rules);
  return job;
}

std::vector<WantedVariable> wanted(const std::vector<std::pair<std::string, Shape>>& shapes) {
  std::vector<WantedVariable> made;
  for (const auto& [name, shape] : shapes) made.push_back({name, DType::kFloat32, shape});
  return made;
}

/// What is refused of these arrays and variables.
std::string refusal_of(const HeldVariables& held, std::vector<plan::NameRule> rules,
                       std::vector<WantedVariable> variables) {
  const plan::Job job = job_with(std::move(rules));
  try {
    const MappedVariables mapped(std::make_unique<HeldVariables>(held), job, std::move(variables),
                                 {});
  } catch (const RequestError& error) {
    return error.what();
  }
  return "";
}

/// The rules that are proposed for these arrays and variables, as YAML.
std::vector<std::string> proposed(const HeldVariables& held,
                                  const std::vector<std::pair<std::string, Shape>>& shapes) {
  std::vector<std::string> texts;
  for (const ProposedRule& one : propose_rules(map_names(held.items(), wanted(shapes), {})))
    texts.push_back(yaml_text(one.rule) + (one.remark.empty() ? "" : " # " + one.remark));
  return texts;
}

std::vector<float> floats(const Array& array) {
  const auto view = array.view();
  return {view.as<float>().begin(), view.as<float>().end()};
}

/// Maps all arrays to variables, turns the variables round, and compares.
void check_both_ways(const HeldVariables& held, const std::vector<plan::NameRule>& rules,
                     const std::vector<WantedVariable>& variables) {
  const plan::Job job = job_with(rules);
  const MappedVariables mapped(std::make_unique<HeldVariables>(held), job, variables, {});
  const auto originals = original_arrays(mapped.items(), rules);
  REQUIRE(originals.size() == held.items().size());
  for (const OriginalArray& original : originals) {
    CAPTURE(original.name);
    const Array made = make_original(mapped, original), expected = held.read(original.name);
    CHECK(made.shape() == expected.shape());
    CHECK(original.shape == expected.shape());
    CHECK(floats(made) == floats(expected));
  }
}

const std::vector<plan::NameRule> kJoined = {
    {.from = {"l.*.q", "l.*.k"}, .to = {"n/{1}/qk"}, .concat = 0, .sizes = {2, 1}}};

}  // namespace

TEST_CASE("rules rename, transpose, join, split and copy arrays, and back", "[exec]") {
  HeldVariables held;
  for (const char* layer : {"0", "1"}) {
    const std::string prefix = std::string("l.") + layer;
    held.add(prefix + ".fc", {3, 2});
    held.add(prefix + ".q", {2, 4});
    held.add(prefix + ".k", {1, 4});
    held.add(prefix + ".gate_up", {4, 6});
  }
  held.add("e", {5});
  held.add("own/w", {2});
  const std::vector<plan::NameRule> rules = {
      {.from = {"l.*.fc"}, .to = {"n/{1+1}/fc"}, .perm = {1, 0}},
      kJoined[0],
      {.from = {"l.*.gate_up"}, .to = {"n/{1}/gate", "n/{1}/up"}, .perm = {1, 0}, .split = 0},
      {.from = {"e"}, .to = {"a/w", "b/w"}, .copy = true}};
  const auto variables = wanted({{"n/1/fc", {2, 3}},
                                 {"n/2/fc", {2, 3}},
                                 {"n/0/qk", {3, 4}},
                                 {"n/1/qk", {3, 4}},
                                 {"n/0/gate", {2, 4}},
                                 {"n/0/up", {4, 4}},
                                 {"n/1/gate", {2, 4}},
                                 {"n/1/up", {4, 4}},
                                 {"a/w", {5}},
                                 {"b/w", {5}},
                                 {"own/w", {2}}});
  check_both_ways(held, rules, variables);
  const plan::Job job = job_with(rules);
  const MappedVariables mapped(std::make_unique<HeldVariables>(held), job, variables, {});
  const std::vector<float> fc = floats(held.read("l.0.fc"));
  CHECK(floats(mapped.read("n/1/fc")) ==
        std::vector<float>{fc[0], fc[2], fc[4], fc[1], fc[3], fc[5]});
  CHECK(floats(mapped.read("a/w")) == floats(mapped.read("b/w")));
  const std::vector<float> up = floats(mapped.read("n/0/up")),
                           both = floats(held.read("l.0.gate_up"));
  CHECK(up[0] == both[2]);
  CHECK(up[1] == both[8]);
}

TEST_CASE("arrays are joined and split along any axis", "[exec]") {
  HeldVariables held;
  held.add("a", {2, 3, 2});
  held.add("b", {2, 1, 2});
  held.add("c", {2, 5, 3});
  check_both_ways(
      held,
      {{.from = {"a", "b"}, .to = {"ab"}, .concat = 1, .sizes = {3, 1}},
       {.from = {"c"}, .to = {"x", "y", "z"}, .perm = {2, 0, 1}, .split = 2}},
      wanted({{"ab", {2, 4, 2}}, {"x", {3, 2, 1}}, {"y", {3, 2, 3}}, {"z", {3, 2, 1}}}));
}

TEST_CASE("the first rule that matches counts, in both directions", "[exec]") {
  HeldVariables held;
  held.add("t.h.0.w", {2});
  held.add("lm", {2});
  check_both_ways(held,
                  {{.from = {"h.*.w"}, .to = {"n/{1}/w"}},
                   {.from = {"t.h.*.w"}, .to = {"n/{1}/v"}},
                   {.from = {"lm"}, .to = {"head"}},
                   {.from = {"*"}, .to = {}, .ignore = true}},
                  wanted({{"n/0/v", {2}}, {"head", {2}}}));
}

TEST_CASE("all that does not match is listed together", "[exec]") {
  HeldVariables held;
  held.add("l.0.q", {2, 4});
  held.add("l.1.q", {2, 4});
  held.add("l.1.k", {1, 4});
  held.add("twice.a", {2});
  held.add("twice.b", {2});
  held.add("wide", {2, 3});
  held.add("codes", {2}, DType::kInt8);
  held.add("other", {7});
  held.add("gone", {1});
  std::vector<plan::NameRule> rules = kJoined;
  rules[0].where = "j.yaml:3:5";
  rules.push_back({.from = {"twice.*"}, .to = {"t"}});
  rules.push_back({.from = {"wide"}, .to = {"w"}});
  rules.push_back({.from = {"gone"}, .to = {"nowhere"}});
  CHECK(refusal_of(
            held, rules,
            wanted({{"n/1/qk", {3, 5}}, {"t", {2}}, {"w", {3, 2}}, {"codes", {2}}, {"m", {}}})) ==
        "held does not match job `eval` by its rules for names: 8 problems\n"
        "  j.yaml:3:5: variable `n/1/qk` from `l.1.q` [2, 4], `l.1.k` [1, 4]: shape [3, 4]; "
        "expected [3, 5]\n"
        "  variable `w` from `wide` [2, 3]: shape [2, 3]; expected [3, 2]; "
        "transpose it with `perm: [1, 0]`\n"
        "  variable `codes` from `codes` [2]: dtype int8; expected float16, bfloat16, float32 or "
        "float64\n"
        "  variable `m` []: no array\n"
        "  j.yaml:3:5: array `l.0.q` [2, 4]: `l.0.k` is missing to join it with\n"
        "  array `twice.b` [2]: `t` already gets `twice.a`\n"
        "  array `gone` [1]: the job has no variable `nowhere`\n"
        "  array `other` [7]: no rule");
}

TEST_CASE("a variable without an array names those that its rules expect", "[exec]") {
  HeldVariables held;
  held.add("o.1.qk", {3, 4});
  std::vector<plan::NameRule> rules = kJoined;
  rules[0].where = "j.yaml:3:5";
  rules.push_back({.from = {"o.*.qk"}, .to = {"n/{1}/qk"}});
  rules.push_back({.from = {"**.other"}, .to = {"other"}});
  const auto variables = wanted({{"n/0/qk", {3, 4}}, {"n/1/qk", {3, 4}}, {"other", {2}}});
  CHECK(refusal_of(held, rules, variables) ==
        "held does not match job `eval` by its rules for names: 2 problems\n"
        "  variable `n/0/qk` [3, 4]: no array; expected `l.0.q`, `l.0.k` (j.yaml:3:5) or "
        "`o.0.qk`\n"
        "  variable `other` [2]: no array; expected `**.other`");
  const NameMap map = map_names(held.items(), variables, rules);
  CHECK(map.idle_rules == std::vector<const plan::NameRule*>{&rules[0], &rules[2]});
}

TEST_CASE("an unneeded `perm` gets a hint to omit it", "[exec]") {
  HeldVariables held;
  held.add("a", {2, 3});
  CHECK_THAT(
      refusal_of(held, {{.from = {"a"}, .to = {"x"}, .perm = {1, 0}}}, wanted({{"x", {2, 3}}})),
      Catch::EndsWith("shape [3, 2]; expected [2, 3]; omit `perm`"));
}

TEST_CASE("a rule gives a variable one array", "[exec]") {
  HeldVariables held;
  held.add("x", {2});
  CHECK_THAT(
      refusal_of(held, {{.from = {"*"}, .to = {"x", "{1}"}, .copy = true}}, wanted({{"x", {2}}})),
      Catch::Contains("array `x` [2]: `to` names `x` twice"));
}

TEST_CASE("shapes that a rule cannot join, split or transpose are refused", "[exec]") {
  HeldVariables held;
  held.add("a", {2, 3});
  held.add("b", {2, 4});
  held.add("none", {0, 3});
  const auto refused = [&](const plan::NameRule& rule, const std::string& what) {
    CHECK_THAT(refusal_of(held, {rule, {.from = {"*"}, .to = {}, .ignore = true}},
                          wanted({{"x", {3, 2}}, {"y", {1, 2}}})),
               Catch::Contains(what));
  };
  refused({.from = {"a", "b"}, .to = {"x"}, .concat = 0},
          "`b` [2, 4] float32 cannot be joined with `a` [2, 3] float32");
  refused({.from = {"a", "b"}, .to = {"x"}, .concat = 2}, "`a` [2, 3] has no axis 2");
  refused({.from = {"a", "b"}, .to = {"x"}, .concat = 1, .sizes = {3, 3}},
          "`b` [2, 4] has size 4 along axis 1; `sizes` has 3");
  refused({.from = {"a"}, .to = {"x"}, .perm = {0, 2, 1}}, "`perm` has 3 axes; `a` [2, 3] has 2");
  refused({.from = {"a"}, .to = {"x", "y"}, .split = 0},
          "`a` [2, 3] cannot be split along axis 0 into these shapes");
  refused({.from = {"none"}, .to = {"x"}}, "`none` [0, 3] is empty");
  refused({.from = {"a"}, .to = {"y"}, .reshape = true}, "shape [2, 3]; expected [1, 2]");
}

TEST_CASE("variables that cannot be turned round are listed", "[exec]") {
  const auto refused = [](const std::vector<StoredItem>& variables,
                          const std::vector<plan::NameRule>& rules, const std::string& what) {
    CHECK_THROWS_WITH(original_arrays(variables, rules), Catch::Contains(what));
  };
  const StoredItem x{"n/x", DType::kFloat32, {3, 2}}, y{"n/y", DType::kFloat32, {4, 2}};
  refused({x}, {{.from = {"a", "b"}, .to = {"n/x"}, .concat = 0}},
          "`n/x` [3, 2]: cannot be cut into 2 equal parts along axis 0; add `sizes`");
  refused({x}, {{.from = {"a", "b"}, .to = {"n/x"}, .concat = 0, .sizes = {1, 1}}},
          "`sizes` do not add up along axis 0");
  refused({x}, {{.from = {"a"}, .to = {"n/x"}, .reshape = true}},
          "the shape before `reshape` is not known");
  refused({x}, {{.from = {"a"}, .to = {"n/x", "n/z"}, .split = 0}},
          "other variables of `to` are missing");
  refused({x, y}, {{.from = {"a"}, .to = {"n/x", "n/y"}, .copy = true}},
          "the shapes or dtypes do not fit together");
  refused({x}, {{.from = {"a"}, .to = {"n/x"}, .perm = {0, 2, 1}}},
          "does not fit the number of axes");
  refused({x, y}, {{.from = {"n/y"}, .to = {"n/x"}}},
          "variable `n/y` has no other name, and this rule would take it");
  refused({x}, {{.from = {"*.x"}, .to = {"n/x"}}},
          "variable `n/x`: `from` has a wildcard that `to` does not name");
  refused({x}, {{.from = {"*/x"}, .to = {"n/z"}}}, "variable `n/x` has no other name");
  HeldVariables held;
  held.add("a/w", {2});
  held.add("b/w", {2});
  const std::vector<plan::NameRule> copied = {{.from = {"e"}, .to = {"a/w", "b/w"}, .copy = true}};
  CHECK_THROWS_WITH(make_original(held, original_arrays(held.items(), copied)[0]),
                    "`a/w` and `b/w` differ; `copy` writes them as one array, `e`");
}

TEST_CASE("rules are proposed by shapes and similar names", "[exec]") {
  HeldVariables held;
  for (const char* layer : {"0", "1", "2"}) {
    const std::string prefix = std::string("h.") + layer;
    held.add(prefix + ".ln_1.weight", {4});
    held.add(prefix + ".ln_1.bias", {4});
    held.add(prefix + ".attn.c_attn.weight", {4, 12});
    held.add(prefix + ".attn.c_proj.weight", {4, 4});
    held.add(prefix + ".mlp.gate_proj.weight", {6, 4});
    held.add(prefix + ".mlp.up_proj.weight", {6, 4});
    held.add(prefix + ".attn.mask", {9, 9});
  }
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const char* layer : {"1", "2", "3"}) {
    const std::string prefix = std::string("net/") + layer;
    shapes.insert(shapes.end(), {{prefix + "/norm1/gamma", {4}},
                                 {prefix + "/norm1/beta", {4}},
                                 {prefix + "/attention/qkv/weight", {12, 4}},
                                 {prefix + "/attention/out_proj/weight", {4, 4}}});
  }
  CHECK(
      proposed(held, shapes) ==
      std::vector<std::string>{
          R"({from: "h.*.ln_1.weight", to: "net/{1+1}/norm1/gamma"})",
          R"({from: "h.*.ln_1.bias", to: "net/{1+1}/norm1/beta"})",
          R"({from: "h.*.attn.c_attn.weight", to: "net/{1+1}/attention/qkv/weight", perm: [1, 0]})",
          R"({from: "h.*.attn.c_proj.weight", to: "net/{1+1}/attention/out_proj/weight", perm: [1, 0]} # square: check `perm`)",
          R"({from: "h.*.mlp.gate_proj.weight", ignore: true} # [6, 4]: no variable fits)",
          R"({from: "h.*.mlp.up_proj.weight", ignore: true} # [6, 4]: no variable fits)",
          R"({from: "h.*.attn.mask", ignore: true} # [9, 9]: no variable fits)"});
}

TEST_CASE("pairs that neither shapes nor names decide are in order, with a remark", "[exec]") {
  HeldVariables held;
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const char* layer : {"0", "1"}) {
    const std::string theirs = std::string("bert.encoder.layer.") + layer,
                      ours = std::string("bert/blocks/") + layer;
    for (const char* part : {".attention.output", ".output"}) {
      held.add(theirs + part + ".LayerNorm.gamma", {4});
      held.add(theirs + part + ".LayerNorm.beta", {4});
    }
    held.add(theirs + ".attention.output.dense.bias", {4});
    held.add(theirs + ".intermediate.dense.weight", {6, 4});
    held.add(theirs + ".intermediate.dense.bias", {6});
    held.add(theirs + ".output.dense.weight", {4, 6});
    held.add(theirs + ".output.dense.bias", {4});
    shapes.insert(shapes.end(), {{ours + "/attention/out_proj/bias", {4}},
                                 {ours + "/norm1/gamma", {4}},
                                 {ours + "/norm1/beta", {4}},
                                 {ours + "/mlp/up/weight", {6, 4}},
                                 {ours + "/mlp/up/bias", {6}},
                                 {ours + "/mlp/down/weight", {4, 6}},
                                 {ours + "/mlp/down/bias", {4}},
                                 {ours + "/norm2/gamma", {4}},
                                 {ours + "/norm2/beta", {4}}});
  }
  CHECK(
      proposed(held, shapes) ==
      std::vector<std::string>{
          R"({from: "bert.encoder.layer.*.attention.output.dense.bias", to: "bert/blocks/{1}/attention/out_proj/bias"})",
          R"({from: "bert.encoder.layer.*.attention.output.LayerNorm.gamma", to: "bert/blocks/{1}/norm1/gamma"} # check: bert/blocks/*/norm2/gamma also fits)",
          R"({from: "bert.encoder.layer.*.attention.output.LayerNorm.beta", to: "bert/blocks/{1}/norm1/beta"} # check: bert/blocks/*/norm2/beta also fits)",
          R"({from: "bert.encoder.layer.*.intermediate.dense.weight", to: "bert/blocks/{1}/mlp/up/weight"})",
          R"({from: "bert.encoder.layer.*.intermediate.dense.bias", to: "bert/blocks/{1}/mlp/up/bias"})",
          R"({from: "bert.encoder.layer.*.output.dense.weight", to: "bert/blocks/{1}/mlp/down/weight"})",
          R"({from: "bert.encoder.layer.*.output.dense.bias", to: "bert/blocks/{1}/mlp/down/bias"})",
          R"({from: "bert.encoder.layer.*.output.LayerNorm.gamma", to: "bert/blocks/{1}/norm2/gamma"} # check: bert.encoder.layer.*.attention.output.LayerNorm.gamma also fits)",
          R"({from: "bert.encoder.layer.*.output.LayerNorm.beta", to: "bert/blocks/{1}/norm2/beta"} # check: bert.encoder.layer.*.attention.output.LayerNorm.beta also fits)"});
}

TEST_CASE("an array that may be left over names the variable that it fits", "[exec]") {
  HeldVariables held;
  for (const char* name : {"b.norm.weight", "a.norm.weight"}) held.add(name, {4});
  CHECK(proposed(held, {{"norm/gamma", {4}}}) ==
        std::vector<std::string>{
            R"({from: "b.norm.weight", ignore: true} # check: norm/gamma also fits)",
            R"({from: "a.norm.weight", ignore: true} # check: norm/gamma also fits)"});
}

TEST_CASE("no rules are proposed that may be swapped", "[exec]") {
  const auto of = [](std::vector<const char*> arrays, std::vector<const char*> variables) {
    HeldVariables held;
    for (const char* name : arrays) held.add(name, {4});
    std::vector<std::pair<std::string, Shape>> shapes;
    for (const char* name : variables) shapes.emplace_back(name, Shape{4});
    return proposed(held, shapes);
  };
  const std::vector<std::string> by_name{R"({from: "decoder.norm.weight", to: "dec/norm/gamma"})",
                                         R"({from: "encoder.norm.weight", to: "enc/norm/gamma"})"};
  CHECK(of({"decoder.norm.weight", "encoder.norm.weight"}, {"dec/norm/gamma", "enc/norm/gamma"}) ==
        by_name);
  auto crossed =
      of({"decoder.norm.weight", "encoder.norm.weight"}, {"enc/norm/gamma", "dec/norm/gamma"});
  std::ranges::reverse(crossed);
  CHECK(crossed == by_name);
  // Nothing tells which is which: arrays that are sorted by name are in no order of the program.
  CHECK(of({"down.norm.weight", "up.norm.weight"}, {"left/norm/gamma", "right/norm/gamma"}) ==
        std::vector<std::string>{
            R"({from: "down.norm.weight", ignore: true} # check: left/norm/gamma also fits)",
            R"({from: "up.norm.weight", ignore: true} # check: right/norm/gamma also fits)"});
  CHECK(
      of({"up.norm.weight", "down.norm.weight"}, {"left/norm/gamma", "right/norm/gamma"}) ==
      std::vector<std::string>{
          R"({from: "up.norm.weight", to: "left/norm/gamma"} # check: right/norm/gamma also fits)",
          R"({from: "down.norm.weight", to: "right/norm/gamma"} # check: up.norm.weight also fits)"});
}

TEST_CASE("a norm before and one after are the first and the second", "[exec]") {
  HeldVariables held;
  for (const char* name : {"layernorm_after", "layernorm_before"})
    held.add(name + std::string(".weight"), {4});
  CHECK(proposed(held, {{"norm1/gamma", {4}}, {"norm2/gamma", {4}}}) ==
        std::vector<std::string>{R"({from: "layernorm_before.weight", to: "norm1/gamma"})",
                                 R"({from: "layernorm_after.weight", to: "norm2/gamma"})"});
}

TEST_CASE("joined and split arrays are proposed too", "[exec]") {
  HeldVariables held;
  for (const char* layer : {"0", "1"}) {
    const std::string prefix = std::string("l.") + layer;
    held.add(prefix + ".self_attn.q_proj.weight", {8, 8});
    held.add(prefix + ".self_attn.k_proj.weight", {4, 8});
    held.add(prefix + ".self_attn.v_proj.weight", {4, 8});
    held.add(prefix + ".mlp.gate_up_proj.weight", {12, 8});
  }
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const char* layer : {"0", "1"}) {
    const std::string prefix = std::string("net/") + layer;
    shapes.insert(shapes.end(), {{prefix + "/qkv/weight", {16, 8}},
                                 {prefix + "/gate/weight", {6, 8}},
                                 {prefix + "/up/weight", {6, 8}}});
  }
  CHECK(
      proposed(held, shapes) ==
      std::vector<std::string>{
          R"({from: ["l.*.self_attn.q_proj.weight", "l.*.self_attn.k_proj.weight", "l.*.self_attn.v_proj.weight"], to: "net/{1}/qkv/weight", concat: 0, sizes: [8, 4, 4]} # check the order)",
          R"({from: "l.*.mlp.gate_up_proj.weight", to: ["net/{1}/gate/weight", "net/{1}/up/weight"], split: 0} # check the order)"});
}

}  // namespace flow::exec
