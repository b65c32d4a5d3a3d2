// Any bytes as a tar shard: indexed, or refused with a RunError. Its values are decoded.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/error.h"
#include "runtime/data/files/tar.h"
#include "runtime/data/files/tar_field.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const flow::data::JsonPointer pointer("/a/0");
  try {
    const flow::data::TarIndex index(bytes, "fuzz.tar");
    for (size_t sample = 0; sample < index.size(); ++sample) {
      FLOW_CHECK(!index.key(sample).empty());
      FLOW_CHECK(!index.fields(sample).empty());
      for (const flow::data::TarField& field : index.fields(sample)) {
        FLOW_CHECK(field.offset <= size && field.size <= size - field.offset);
        const auto value = bytes.subspan(field.offset, field.size);
        (void)flow::data::kind_of_field(index.name_of(field));
        (void)flow::data::decode_integer(value);
        (void)flow::data::decode_json(value, pointer);
      }
    }
  } catch (const flow::RunError&) {
  }
  return 0;
}
