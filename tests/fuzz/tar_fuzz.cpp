// Any bytes as a tar shard: indexed, or refused with a RunError. Its values are decoded. The bytes
// are also read with valid checksums, which random changes rarely produce.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <string>

#include "runtime/base/error.h"
#include "runtime/data/files/tar.h"
#include "runtime/data/files/tar_field.h"

namespace {

void read_shard(const std::string& shard) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(shard));
  const flow::data::JsonPointer pointer("/a/0");
  try {
    const flow::data::TarIndex index(bytes, "fuzz.tar");
    for (size_t sample = 0; sample < index.size(); ++sample) {
      FLOW_CHECK(!index.key(sample).empty());
      FLOW_CHECK(!index.fields(sample).empty());
      for (const flow::data::TarField& field : index.fields(sample)) {
        FLOW_CHECK(field.offset <= shard.size() && field.size <= shard.size() - field.offset);
        const auto value = bytes.subspan(field.offset, field.size);
        (void)flow::data::kind_of_field(index.name_of(field));
        (void)flow::data::decode_integer(value);
        (void)flow::data::decode_json(value, pointer);
      }
    }
  } catch (const flow::RunError&) {
  }
}

/// Writes a valid checksum into each block that has the mark of a header.
std::string with_checksums(std::string shard) {
  constexpr size_t kBlock = 512, kChecksum = 148, kMark = 257;
  for (size_t at = 0; at + kBlock <= shard.size(); at += kBlock) {
    if (shard.compare(at + kMark, 5, "ustar") != 0) continue;
    shard.replace(at + kChecksum, 8, 8, ' ');
    const auto add = [](unsigned sum, char c) { return sum + static_cast<unsigned char>(c); };
    const auto begin = shard.begin() + static_cast<ptrdiff_t>(at);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", std::accumulate(begin, begin + kBlock, 0U, add));
    shard.replace(at + kChecksum, 7, text, 7);
  }
  return shard;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string shard(reinterpret_cast<const char*>(data), size);
  read_shard(shard);
  read_shard(with_checksums(shard));
  return 0;
}
