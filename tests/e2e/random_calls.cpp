// random_calls FOLDER: random calls of kernels that have no reference, with what they make of them,
// for NumPy to judge. arrays.bin has all arrays, calls.json says what they belong to.
#include <fstream>
#include <iostream>

#include "ops/core/spec.h"
#include "runtime/plan/json/json.h"
#include "tests/property/random_cases.h"

namespace flow::test {
namespace {

constexpr int kCases = 25;  // of each op

class Calls {
 public:
  explicit Calls(const fs::path& folder)
      : list_(folder / "calls.json"), arrays_(folder / "arrays.bin", std::ios::binary) {}

  /// Runs the call.
  void add(const KernelCase& one, const KernelSettings& settings) {
    Json call{{"op", one.op},
              {"text", one.str()},
              {"terms", terms_of(one)},
              {"step", settings.step},
              {"attributes", Json::object()}};
    for (const auto& [name, value] : one.attributes) call["attributes"][name] = json_of(value);
    for (const Array& input : one.inputs) call["inputs"].push_back(add_array(input));
    for (const Array& output : run_kernel(one, settings).outputs)
      call["outputs"].push_back(add_array(output));
    list_ << call.dump() << '\n';
  }

 private:
  static Json json_of(const plan::Attribute& attribute) {
    return std::visit(
        []<typename T>(const T& value) -> Json {
          if constexpr (std::is_same_v<T, DType>)
            return name_of(value);
          else
            return value;
        },
        attribute);
  }

  Json add_array(const Array& array) {
    Json made{{"dtype", name_of(array.dtype())},
              {"shape", array.shape().extents()},
              {"offset", static_cast<int64_t>(arrays_.tellp())}};
    arrays_.write(reinterpret_cast<const char*>(array.bytes().data()),
                  static_cast<std::streamsize>(array.bytes().size()));
    return made;
  }

  std::ofstream list_, arrays_;
};

/// Do float32 and float64 share the one loop that the CPU has?
bool is_without_reference(const cpu::KernelEntry& entry) {
  return cpu::find_kernel(cpu::reference_kernels(), entry.op)->prepare == entry.prepare;
}

void write_calls(const fs::path& folder) {
  Calls calls(folder);
  for (const cpu::KernelEntry& entry : cpu::fast_kernels()) {
    if (!is_without_reference(entry)) continue;
    const std::string op(entry.op);
    Random random(static_cast<Random::result_type>(op.size() * 1000 + op.front()));
    for (int i = 0; i < kCases; ++i) {
      const KernelCase one = random_case(op, random);
      calls.add(one, {cpu::fast_kernels()});
      if (takes_channels_last(one))
        calls.add(one, {cpu::fast_kernels(), cpu::Layout::kChannelsLast});
      if (!has_dtype_attribute(op)) calls.add(widened(one), {cpu::double_kernels()});
    }
  }
}

}  // namespace
}  // namespace flow::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: random_calls FOLDER\n";
    return 2;
  }
  flow::test::write_calls(argv[1]);
}
