// Variables in the tree.
#include "compiler/job/text/vars.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "compiler/job/read/sections.h"
#include "tests/unit/job/reading.h"

namespace flow::job {
namespace {

void put_in(Reading& reading) { Variables(reading.reader, reading.tree).substitute(reading.tree); }

TEST_CASE("a variable is taken whole, whatever it is", "[job]") {
  const char* text = "vars: {n: 5, init: {type: normal, stddev: 0.1}}\nx: $n\ny: $init\n";
  Reading reading(text);
  put_in(reading);
  CHECK(reading.at("x") == "5");
  CHECK(reading.at("y.stddev") == "0.1");
  // The value stands where it is used; what is inside of it, where it was declared.
  CHECK(reading.sources.where(reading.tree.find("y")->span) == "job.yaml:3:4");
  CHECK(reading.sources.where(reading.tree.find("y")->find("stddev")->span) == "job.yaml:1:43");
}

TEST_CASE("a variable may use those above it", "[job]") {
  Reading reading("vars: {n: 5, m: $n, t: a$(m)b}\nx: $t\n");
  put_in(reading);
  CHECK(reading.at("x") == "a5b");
}

TEST_CASE("a variable that is declared further down is an error", "[job]") {
  Reading reading("vars: {m: $n, n: 5}\nx: $m\n");
  put_in(reading);
  CHECK(reading.says("E0205"));
}

TEST_CASE("a variable cannot use itself", "[job]") {
  Reading reading("vars: {n: $n}\n");
  put_in(reading);
  CHECK(reading.says("E0205"));
}

TEST_CASE("an undeclared variable gets a suggestion", "[job]") {
  Reading reading("vars: {batch: 5}\nx: $bacth\n");
  put_in(reading);
  CHECK(reading.says("did you mean `batch`?"));
}

TEST_CASE("expressions compute with variables, and text takes them as they are", "[job]") {
  Reading reading(
      "seed: 3\nvars: {n: 6, lr: 1/10}\na: $(n * 2)\nb: \"runs/$(n)-$(seed)$$\"\nc: $(lr / 2)\n");
  put_in(reading);
  CHECK(reading.at("a") == "12");
  CHECK(reading.at("b") == "runs/6-3$");
  CHECK(reading.at("c") == "0.05");
}

TEST_CASE("a variable inside text is written in parentheses", "[job]") {
  Reading reading("vars: {n: 6}\na: x$n\n");
  put_in(reading);
  CHECK(reading.says("write `$(n)`"));
}

TEST_CASE("a list cannot stand inside text", "[job]") {
  Reading reading("vars: {n: [1]}\na: x$(n)\n");
  put_in(reading);
  CHECK(reading.says("E0207"));
}

TEST_CASE("the environment is read, with a default where it has nothing", "[job]") {
  ::setenv("FLOW_TEST_VALUE", "7", 1);
  ::unsetenv("FLOW_TEST_NOTHING");
  Reading reading(
      "a: $env(FLOW_TEST_VALUE)\nb: x$env(FLOW_TEST_NOTHING:-y)\nc: $env(FLOW_TEST_NOTHING)\n");
  put_in(reading);
  CHECK(reading.at("a") == "7");
  CHECK(reading.at("b") == "xy");
  CHECK(reading.says("E0208"));
  CHECK(reading.diags.error_count() == 1);
}

TEST_CASE("a text with the environment put in keeps what it asks for, also over variables",
          "[job]") {
  ::setenv("FLOW_TEST_VALUE", "7", 1);
  ::unsetenv("FLOW_TEST_NOTHING");
  Reading reading(
      "vars: {v: $env(FLOW_TEST_VALUE), n: 2, w: \"a$$ $(v)/$(n)\"}\n"
      "a: $v\nb: $w\nc: \"$(w)$env(FLOW_TEST_NOTHING:-(x))\"\nd: $(v * 2)\ne: $n\n");
  put_in(reading);
  CHECK(reading.diags.error_count() == 0);
  const auto unexpanded = [&](const char* key) { return reading.tree.find(key)->unexpanded; };
  CHECK(unexpanded("a") == "$env(FLOW_TEST_VALUE)");
  CHECK(reading.at("b") == "a$ 7/2");
  CHECK(unexpanded("b") == "a$$ $env(FLOW_TEST_VALUE)/2");
  CHECK(reading.at("c") == "a$ 7/2(x)");
  CHECK(unexpanded("c") == "a$$ $env(FLOW_TEST_VALUE)/2$env(FLOW_TEST_NOTHING:-(x))");
  CHECK(reading.at("d") == "14");
  CHECK(unexpanded("d") == "");
  CHECK(unexpanded("e") == "");
}

TEST_CASE("an unset environment variable is an error where it is used, but for a command's env",
          "[job]") {
  ::unsetenv("FLOW_TEST_NOTHING");
  const std::string vars = "vars: {t: $env(FLOW_TEST_NOTHING), u: \"Bearer $(t)\"}\n";
  const auto errors_of = [&](const std::string& rest) {
    Reading reading(vars + rest);
    put_in(reading);
    if (reading.diags.error_count() > 0) CHECK(reading.says("is not set"));
    return reading.diags.error_count();
  };
  CHECK(errors_of("") == 0);
  CHECK(errors_of(
            "to: {type: command, run: x, env: {A: $t, B: $u, C: $env(FLOW_TEST_NOTHING)}}\n") == 0);
  CHECK(errors_of("to: {type: command, run: x, env: {A: $t}}\nother: $t\nagain: $t\n") == 1);
  CHECK(errors_of("other: x$(u)\n") == 1);
  CHECK(errors_of("other: $(t + 1)\n") == 1);
  CHECK(errors_of("to: {type: print, env: {A: $t}}\n") == 1);
  CHECK(errors_of("to: {type: command, run: x, timeout: $t}\n") == 1);
}

TEST_CASE("a sink or its env may be a variable that needs the environment", "[job]") {
  ::unsetenv("FLOW_TEST_NOTHING");
  Reading whole(
      "vars:\n  sink: {type: command, run: x, env: {A: $env(FLOW_TEST_NOTHING)}}\n"
      "  env: {A: $env(FLOW_TEST_NOTHING)}\n"
      "to: [$sink, {type: command, run: x, env: $env}]\n");
  put_in(whole);
  CHECK(whole.diags.error_count() == 0);
  Reading part(
      "vars: {sink: {type: command, run: x, timeout: $env(FLOW_TEST_NOTHING), env: {}}}\n"
      "to: $sink\n");
  put_in(part);
  CHECK(part.diags.error_count() == 1);
}

TEST_CASE("a name may be as long as a file", "[job]") {
  const std::string name(1'000'000, 'a');
  Reading reading("vars: {x: 1}\nwhole: $" + name + "\ninside: $(" + name + " + 1)\ntext: n$" +
                  name + "\n");
  put_in(reading);
  CHECK(reading.diags.error_count() == 3);
  CHECK(reading.says("undeclared variable"));
  CHECK(reading.says("inside text; expected"));

  // What stays as it is written is looked through for the variables that it needs.
  Reading kept("flow: 1\nvars: {n: 3, m: 4}\njobs:\n  j:\n    graph:\n      e: {repeat: 2, at: \"" +
               name + " $(index + n)\"}\n");
  resolve(kept.reader, kept.tree);
  CHECK(kept.at("jobs.j.graph.e.at") == name + " $(index + n)");
  CHECK(kept.at("vars.n") == "3");
  CHECK(kept.at("vars.m") == "(absent)");
}

TEST_CASE("variables that multiply without end are refused", "[job]") {
  std::string lists = "vars:\n  v0: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n",
              texts = "vars:\n  v0: abcdefghij\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = std::to_string(i - 1);
    lists += "  v" + std::to_string(i) + ": [";
    texts += "  v" + std::to_string(i) + ": ";
    for (int k = 0; k < 10; ++k) {
      lists += (k ? ", $v" : "$v") + last;
      texts += "$(v" + last + ")";
    }
    lists += "]\n";
    texts += "\n";
  }
  for (const std::string& text : {lists, texts}) {
    Reading reading(text);
    put_in(reading);
    CHECK(reading.says("E0124"));
  }
}

TEST_CASE("an error at a value shows the variable it came from", "[job]") {
  Reading reading("vars: {n: abc}\nx: $n\n");
  put_in(reading);
  reading.reader.error(Diagnosis::kBadScalar, *reading.tree.find("x"), "wrong");
  CHECK(reading.says("`$n` is set here"));
}

}  // namespace
}  // namespace flow::job
