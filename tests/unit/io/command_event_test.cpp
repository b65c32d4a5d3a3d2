// What commands read, byte for byte.
#include "runtime/io/commands.h"

#include <catch2/catch.hpp>

#include "tests/support/npy_bytes.h"
#include "tests/unit/io/sink_case.h"

namespace flow::io {
namespace {

using Format = plan::CommandSink::Format;
using plan::ReturnValue;

ReturnValue leaf() { return {ReturnValue::Kind::kNumpy, plan::TensorId(size_t{0}), {}, {}, "x"}; }

std::vector<Encoded> encode(const std::vector<NamedArray>& arrays, Format format = Format::kNpy) {
  std::vector<Encoded> all;
  all.reserve(arrays.size());
  for (const NamedArray& array : arrays) all.emplace_back(array, format);
  return all;
}

TEST_CASE("an event is one line of JSON without spaces", "[io]") {
  const Array logits(DType::kFloat32, {100, 10});
  CommandEvent event{"watch", "lenet", "job.yaml:3:4", 20, 1};
  event.arrays = {{"lenet", logits.view()}};
  CHECK(event_line("train", event, encode(event.arrays)) ==
        R"({"flow":1,"event":"watch","job":"train","name":"lenet","step":20,"epoch":1,"value":0,)"
        R"("arrays":[{"name":"lenet","dtype":"float32","shape":[100,10],"bytes":4128}]})"
        "\n");
}

TEST_CASE("an event of a scope says what the tensor is", "[io]") {
  CommandEvent event{"watch_diff", "net/out/matmul", "", 3, 0};
  event.scope = "net/out";
  event.op = "matmul";
  event.placement = "cpu";
  CHECK(event_line("train", event, {}) ==
        R"({"flow":1,"event":"watch_diff","job":"train","name":"net/out/matmul","step":3,)"
        R"("epoch":0,"scope":"net/out","op":"matmul","placement":"cpu","value":0,"arrays":[]})"
        "\n");
}

TEST_CASE("an event of a job that another one calls says where that one stands", "[io]") {
  CommandEvent event{"return", "loss", "", 3, 0};
  event.call = {600, 2};
  event.scope = "net";
  CHECK(
      event_line("eval", event, {}) ==
      R"({"flow":1,"event":"return","job":"eval","name":"loss","step":3,"epoch":0,)"
      R"("main_step":600,"main_epoch":2,"scope":"net","op":"","placement":"","value":0,"arrays":[]})"
      "\n");
  CHECK(event_environment("eval", event, {}).at("FLOW_MAIN_STEP") == "600");
  CHECK(event_environment("eval", event, {}).at("FLOW_MAIN_EPOCH") == "2");
  CHECK(pass_end_line("eval", event) ==
        R"({"flow":1,"event":"pass_end","job":"eval","step":3,"epoch":0,"main_step":600,)"
        R"("main_epoch":2,"arrays":[]})"
        "\n");
}

TEST_CASE("the first and the last event say what the run is and how it ended", "[io]") {
  CHECK(start_line("train", "0123456789abcdef", {"lenet", "a/b"}, {}) ==
        R"({"flow":1,"event":"start","job":"train","plan":"0123456789abcdef",)"
        R"("names":["lenet","a/b"],"resumed_from":null,"arrays":[]})"
        "\n");
  CHECK(start_line("train", "x", {}, 40).find(R"("resumed_from":40,)") != std::string::npos);
  CHECK(end_line("train", "stopped") ==
        R"({"flow":1,"event":"end","job":"train","status":"stopped","arrays":[]})"
        "\n");
}

TEST_CASE("a nested value has indices at its leaves", "[io]") {
  CHECK(structure_of(leaf()) == "0");
  const ReturnValue list{ReturnValue::Kind::kList, {}, {leaf(), leaf()}, {}, ""};
  const ReturnValue dict{ReturnValue::Kind::kDict, {}, {list, leaf()}, {"a", "b \"c\""}, ""};
  const ReturnValue tuple{ReturnValue::Kind::kTuple, {}, {leaf(), dict}, {}, ""};
  CHECK(structure_of(tuple) == R"([0,{"a":[1,2],"b \"c\"":3}])");

  ReturnValue parts = leaf();
  parts.kind = ReturnValue::Kind::kListNumpy;
  const ReturnValue both{ReturnValue::Kind::kTuple, {}, {parts, leaf()}, {}, ""};
  CHECK(structure_of(both, 3) == "[[0,1,2],3]");
}

TEST_CASE("an array goes out as the file that NumPy saves, bfloat16 as float32", "[io]") {
  const Array numbers = array_of<int64_t>({2, 1}, {-1, 7});
  const Array half(DType::kBFloat16, {3});
  const auto encoded = encode({{"n", numbers.view()}, {"h", half.view()}});
  std::string bytes = encoded[0].head;
  bytes.append(reinterpret_cast<const char*>(encoded[0].body.data), encoded[0].body.bytes());
  CHECK(bytes == npy_bytes(numbers.view()));
  CHECK(bytes.size() == encoded[0].bytes());
  CHECK(encoded[1].dtype == DType::kFloat32);
  CHECK(encoded[1].body.bytes() == 12);
}

TEST_CASE("as text an array has a row a line", "[io]") {
  const auto text_of = [](const Array& array) {
    const auto encoded = encode({{"x", array.view()}}, Format::kText);
    CHECK(encoded[0].bytes() == encoded[0].head.size());
    return encoded[0].head;
  };
  CHECK(text_of(array_of<float>({2, 3}, {1, 2.5F, -0.125F, 1e-9F, 0, 3})) ==
        "1.0 2.5 -0.125\n1e-09 0.0 3.0\n");
  CHECK(text_of(array_of<float>({2, 1, 2}, {1, 2, 3, 4})) == "1.0 2.0\n3.0 4.0\n");
  CHECK(text_of(array_of<int32_t>({3}, {1, 2, 3})) == "1\n2\n3\n");
  CHECK(text_of(array_of<int32_t>({}, {5})) == "5\n");
  CHECK(text_of(Array(DType::kFloat32, {0, 4})).empty());
}

TEST_CASE("a spawned command finds its event in the environment", "[io]") {
  const Array a(DType::kFloat32, {100, 10}), b(DType::kInt32, {});
  CommandEvent event{"return", "returns", "", 7, 2};
  event.arrays = {{"a", a.view()}, {"b", b.view()}};
  CHECK(event_environment("eval", event, encode(event.arrays)) ==
        std::map<std::string, std::string>{{"FLOW_EVENT", "return"},
                                           {"FLOW_JOB", "eval"},
                                           {"FLOW_NAME", "returns"},
                                           {"FLOW_STEP", "7"},
                                           {"FLOW_EPOCH", "2"},
                                           {"FLOW_DTYPE", "float32;int32"},
                                           {"FLOW_SHAPE", "100,10;"}});
}

}  // namespace
}  // namespace flow::io
