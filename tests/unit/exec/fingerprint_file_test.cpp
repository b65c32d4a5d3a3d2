// The ring of fingerprints: what it keeps, and what it refuses.
#include "runtime/exec/core/fingerprints.h"

#include <catch2/catch.hpp>

#include "tests/support/fresh_directory.h"

namespace flow::exec {
namespace {

const std::vector<plan::TensorId> kTensors = {plan::TensorId(3), plan::TensorId(0),
                                              plan::TensorId(7)};
constexpr uint64_t kSlotBytes = 16 + 3 * 64, kBegin = 64;

std::vector<Fingerprint> of_one_step(int64_t step) {
  std::vector<Fingerprint> values(kTensors.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].count = step + 1;
    values[i].hash = mix_index(static_cast<uint64_t>(step)) + i;
  }
  return values;
}

void write_some(const fs::path& path, const FingerprintOptions& options, int64_t first,
                int64_t end) {
  FingerprintWriter writer(path, kTensors, options, first);
  for (int64_t step = first; step < end; ++step)
    if (step % options.every == 0) writer.write(step, of_one_step(step));
  writer.close();
}

using Steps = std::vector<int64_t>;

std::string changed(std::string text, size_t at) {
  text[at] = static_cast<char>(text[at] ^ 4);
  return text;
}

}  // namespace

TEST_CASE("a ring keeps the last steps that fit", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "fingerprints.bin";
  write_some(path, {.every = 2, .bytes = kBegin + 3 * kSlotBytes + 100}, 0, 11);
  const FingerprintReader reader(path);
  CHECK(reader.every() == 2);
  CHECK(reader.tensors() == kTensors);
  CHECK(reader.steps() == Steps{6, 8, 10});
  for (const int64_t step : reader.steps()) {
    const std::vector<Fingerprint> values = reader.of_step(step);
    CHECK(values[2].hash == of_one_step(step)[2].hash);
    CHECK(values[0].count == step + 1);
  }
  CHECK(fs::file_size(path) <= kBegin + 3 * kSlotBytes + 100);
}

TEST_CASE("a resumed run continues its ring", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "fingerprints.bin", whole = home / "whole.bin";
  const FingerprintOptions options{.every = 1, .bytes = kBegin + 6 * kSlotBytes};
  write_some(path, options, 0, 5);
  {
    FingerprintWriter writer(path, kTensors, options, 3);
    CHECK(writer.is_continued());
    CHECK(FingerprintReader(path).steps() == Steps{0, 1, 2});
  }
  write_some(path, options, 3, 8);
  write_some(whole, options, 0, 8);
  CHECK(read_text(path) == read_text(whole));
  const FingerprintWriter other(path, kTensors, {.every = 3, .bytes = kBegin + 6 * kSlotBytes}, 8);
  CHECK_FALSE(other.is_continued());
  CHECK(FingerprintReader(path).steps().empty());
}

TEST_CASE("slots that a crash tore do not count", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "fingerprints.bin";
  write_some(path, {.every = 1, .bytes = 1 << 20}, 0, 3);
  const std::string text = read_text(path);
  const auto read = [&](const std::string& bytes) {
    write_text_atomically(path, bytes);
    const FingerprintReader reader(path);
    return std::pair(reader.steps(), reader.damaged());
  };
  CHECK(read(text) == std::pair(Steps{0, 1, 2}, size_t{0}));
  CHECK(read(text.substr(0, text.size() - 1)) == std::pair(Steps{0, 1}, size_t{1}));
  CHECK(read(text.substr(0, text.size() - kSlotBytes + 1)) == std::pair(Steps{0, 1}, size_t{1}));
  CHECK(read(changed(text, kBegin + kSlotBytes + 40)) == std::pair(Steps{0, 2}, size_t{1}));
  CHECK(read(changed(text, kBegin + kSlotBytes)) == std::pair(Steps{0, 2}, size_t{1}));  // the step
  const FingerprintWriter resumed(path, kTensors, {.every = 1, .bytes = 1 << 20}, 1);
  CHECK(resumed.is_continued());
  CHECK(FingerprintReader(path).steps() == Steps{0});
  CHECK(FingerprintReader(path).damaged() == 0);
}

TEST_CASE("a file that has no fingerprints is refused", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "fingerprints.bin";
  write_some(path, {.every = 1, .bytes = 1 << 20}, 0, 2);
  const std::string text = read_text(path);
  for (size_t length = 0; length < kBegin; ++length) {
    write_text_atomically(path, text.substr(0, length));
    CHECK_THROWS_AS(FingerprintReader(path), RequestError);
  }
  for (size_t at = 0; at < kBegin; ++at) {
    write_text_atomically(path, changed(text, at));
    CHECK_THROWS_AS(FingerprintReader(path), RequestError);
  }
  CHECK_THROWS_WITH(
      FingerprintWriter(path, kTensors, {.every = 1, .bytes = kBegin + kSlotBytes - 1}, 0),
      Catch::Contains("the fingerprints of 3 tensors in one step take"));
}

}  // namespace flow::exec
