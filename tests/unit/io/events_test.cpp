// Event files: checksums, messages, records.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/io/event_records.h"
#include "tests/support/fresh_directory.h"

namespace flow::io {

namespace {

using namespace std::string_literals;

std::span<const std::byte> event_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::string> records_of(std::string_view text) {
  std::vector<std::string> records;
  visit_records(event_bytes(text),
                [&](std::string_view record, size_t) { records.emplace_back(record); });
  return records;
}

TEST_CASE("crc32c is that of RFC 3720", "[io]") {
  CHECK(crc32c({}) == 0);
  CHECK(crc32c(event_bytes("123456789")) == 0xe3069283);
  CHECK(crc32c(event_bytes(std::string(32, '\0'))) == 0x8a9136aa);
  CHECK(crc32c(event_bytes(std::string(32, '\xff'))) == 0x62a8ab43);
}

TEST_CASE("a message has the bytes of the protobuf encoding", "[io]") {
  Protobuf inner;
  inner.text(2, "testing");
  CHECK(inner.bytes() == "\x12\x07testing");
  Protobuf message;
  message.integer(1, 150);
  CHECK(message.bytes() == "\x08\x96\x01");
  message.message(3, inner);
  CHECK(message.bytes() == "\x08\x96\x01\x1a\x09\x12\x07testing");
  Protobuf numbers;
  numbers.integer(1, -1);
  CHECK(numbers.bytes() == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  Protobuf reals;
  reals.float64(1, 1);
  reals.float32(2, -2);
  reals.float64s(20, std::vector<double>{0, 1});
  CHECK(reals.bytes() ==
        "\x09\0\0\0\0\0\0\xf0\x3f\x15\0\0\0\xc0\xa2\x01\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x3f"s);
}

TEST_CASE("records come back whole, up to the first that is damaged", "[io]") {
  const std::string text = framed("one") + framed("") + framed(std::string(300, 'x'));
  CHECK(records_of(text) == std::vector<std::string>{"one", "", std::string(300, 'x')});
  for (size_t length = 0; length < text.size(); ++length)
    CHECK(records_of(text.substr(0, length)).size() == (length >= 35   ? 2u
                                                        : length >= 19 ? 1u
                                                                       : 0u));
  for (size_t at = 0; at < 19; ++at) {
    std::string damaged = text;
    damaged[at] ^= 1;
    CHECK(records_of(damaged).empty());
  }
  CHECK(records_of(std::string(12, '\xff') + text).empty());  // a length of 2^64 - 1
}

TEST_CASE("a record file is cut and appended to", "[io]") {
  const FreshDirectory home;
  RecordFile file(home / "file", framed("kept"));
  file.append("one");
  const uint64_t before = file.bytes();
  file.append("two");
  file.cut(before);
  file.append("three");
  file.close();
  CHECK(fs::file_size(home / "file") == file.bytes());
  CHECK(records_of(read_text(home / "file")) == std::vector<std::string>{"kept", "one", "three"});
}

}  // namespace
}  // namespace flow::io
