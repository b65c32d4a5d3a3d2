// Fingerprints on the device, against the CPU's.
#include "runtime/cuda/loops/fingerprint.h"

#include <catch2/catch.hpp>

#include "runtime/base/element_types.h"
#include "runtime/cpu/backend/fingerprint.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/loops/parallel.h"
#include "tests/property/kernel_case.h"
#include "tests/support/cuda/test_device.h"

namespace flow::test {
namespace {

/// A tensor in consecutive parts, as shards have them; the last axes of images are whole.
struct Printed {
  Shape shape;  // of a part
  size_t parts = 1;
  int64_t first = 0;
  bool channels_last = false;
};

Array random_elements(Random& random, DType dtype, const Shape& shape) {
  std::uniform_real_distribution<double> uniform(-100, 100);
  Array array(dtype, shape);
  visit_dtype(dtype, [&]<typename T>(T) {
    for (T& element : array.as<T>()) element = convert<T>(uniform(random));
    if constexpr (!std::is_integral_v<T>) {
      if (array.as<T>().size() > 5) {
        array.as<T>()[1] = convert<T>(double{kNan});
        array.as<T>()[5] = convert<T>(-double{std::numeric_limits<float>::infinity()});
      }
    }
  });
  return array;
}

Fingerprint on_cpu(const std::vector<Array>& parts, const Printed& printed) {
  Fingerprint made;
  std::vector<Fingerprint> chunks(cpu::fingerprint_chunks(printed.shape));
  for (const Array& part : parts)
    made.merge(
        cpu::fingerprint_of(1,
                            {part.dtype(), printed.shape, cpu::Layout::kPlain, part.bytes().data(),
                             printed.shape.elements(), printed.first + made.count},
                            chunks));
  return made;
}

/// The same bytes as they lie with channels last.
Array with_channels_last(const Array& plain) {
  Array last(plain.dtype(), plain.shape());
  cpu::reorder(1, size_of(plain.dtype()), plain.shape(), cpu::Layout::kPlain, plain.bytes().data(),
               cpu::Layout::kChannelsLast, last.bytes().data());
  return last;
}

Fingerprint on_device(const std::vector<Array>& parts, const Printed& printed, DType shown,
                      LaneOrder lanes) {
  const auto device = open_test_device(lanes);
  cuda::Driver& driver = device->driver();
  const cuda::Stream stream = driver.create_stream();
  const cuda::LaunchState state{driver, stream, nullptr, nullptr};
  std::byte* const data = driver.allocate(parts[0].bytes().size() + 1);
  std::byte* const made = driver.allocate(2 * sizeof(Fingerprint));
  std::byte* const workspace = driver.allocate(cuda::fingerprint_workspace());
  auto* const prints = reinterpret_cast<Fingerprint*>(made);
  cuda::clear_fingerprints(prints, 2, state);
  for (const Array& part : parts) {
    const Array laid = printed.channels_last ? with_channels_last(part) : part;
    driver.copy(data, laid.bytes().data(), laid.bytes().size(), stream);
    cuda::take_fingerprint({part.dtype(), shown, printed.shape, printed.channels_last, data,
                            printed.shape.elements(), printed.first},
                           prints + 1, workspace, state);
    driver.synchronize(stream);
  }
  Fingerprint got[2];
  driver.copy(got, made, sizeof(got), stream);
  driver.synchronize(stream);
  for (std::byte* memory : {data, made, workspace}) driver.release(memory);
  driver.destroy(stream);
  device->finish();
  const Fingerprint none;
  CHECK(std::memcmp(&got[0], &none, sizeof(none)) == 0);
  return got[1];
}

void require_alike(const Fingerprint& got, const Fingerprint& expected) {
  CHECK(got.count == expected.count);
  CHECK(got.hash == expected.hash);
  CHECK(got.not_finite == expected.not_finite);
  CHECK(got.least == expected.least);
  CHECK(got.most == expected.most);
  const auto near = [](double value, double size) {
    return Approx(value).epsilon(1e-13).margin(1e-13 * size);
  };
  CHECK(got.sum == near(expected.sum, expected.absolute));
  CHECK(got.absolute == near(expected.absolute, 0));
  CHECK(got.square == near(expected.square, 0));
}

const Printed kPrinted[] = {{{}},
                            {{7}},
                            {{5, 1031}},
                            {{3, 4096}, 3},
                            {{3, 37}, 4, 1000},
                            {{2, 3, 5, 7}, 2},
                            {{4, 3, 3, 3}},
                            {{2, 2, 33, 40}},
                            {{2, 6, 5, 7}, 2, 420, true},
                            {{3, 70, 2, 2}, 1, 0, true},
                            {{2, 3, 33, 40}, 1, 0, true}};

}  // namespace

TEST_CASE("fingerprints on the device are those of the CPU", "[cuda]") {
  const DType dtype = GENERATE(from_range(all_dtypes()));
  Random random(7);
  for (const Printed& printed : kPrinted) {
    std::vector<Array> parts;
    for (size_t i = 0; i < printed.parts; ++i)
      parts.push_back(random_elements(random, dtype, printed.shape));
    const Fingerprint expected = on_cpu(parts, printed);
    INFO(name_of(dtype) << printed.shape.str() << " in " << printed.parts);
    const Fingerprint got = on_device(parts, printed, dtype, LaneOrder::kForward);
    require_alike(got, expected);
    const Fingerprint again = on_device(parts, printed, dtype, kLaneOrders[1]);
    CHECK(std::memcmp(&got, &again, sizeof(got)) == 0);
  }
}

TEST_CASE("16-bit versions of tensors have the fingerprints of the same numbers in float32",
          "[cuda]") {
  const DType dtype = GENERATE(DType::kFloat16, DType::kBFloat16);
  Random random(8);
  for (const Printed& printed : {kPrinted[2], kPrinted[8]}) {
    std::vector<Array> parts, wide;
    for (size_t i = 0; i < printed.parts; ++i) {
      parts.push_back(random_elements(random, dtype, printed.shape));
      Array& widened = wide.emplace_back(DType::kFloat32, printed.shape);
      visit_any_float(dtype, [&]<typename T>(T) {
        if constexpr (sizeof(T) == 2)
          std::ranges::transform(parts.back().as<T>(), widened.as<float>().begin(),
                                 [](T x) { return convert<float>(x); });
      });
    }
    require_alike(on_device(parts, printed, DType::kFloat32, LaneOrder::kForward),
                  on_cpu(wide, printed));
  }
}

}  // namespace flow::test
