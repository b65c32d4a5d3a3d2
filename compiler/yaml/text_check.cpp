// Is this text at all?
#include "compiler/yaml/text_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/display.h"

namespace flow::yaml {
namespace {

/// The bytes of a text that was read no further than its limit, as far as they are known.
std::string size_of(const Source& source) {
  const size_t read = source.text().size();
  std::error_code unknown;
  const uint64_t bytes =
      fs::is_regular_file(source.name(), unknown) ? fs::file_size(source.name(), unknown) : 0;
  if (bytes >= read) return std::to_string(bytes);
  return read == kLargestFile + 1 ? fmt::format("more than {}", kLargestFile)
                                  : std::to_string(read);
}

/// The encoding of the byte order mark, if it is not UTF-8; else null.
const char* other_encoding(std::string_view text) {
  using std::string_view_literals::operator""sv;
  if (text.starts_with("\0\0\xFE\xFF"sv) || text.starts_with("\xFF\xFE\0\0"sv)) return "UTF-32";
  if (text.starts_with("\xFE\xFF"sv) || text.starts_with("\xFF\xFE"sv)) return "UTF-16";
  return nullptr;
}

Span span_at(int32_t id, size_t offset, size_t bytes) {
  return {id, static_cast<uint32_t>(offset), static_cast<uint32_t>(offset + bytes)};
}

bool is_allowed(std::string_view text, size_t offset) {
  const char byte = text[offset];
  if (byte == '\r') return offset + 1 < text.size() && text[offset + 1] == '\n';
  return byte == '\t' || byte == '\n' || (static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7F);
}

void report_control_character(Diags& diags, Span span, char byte) {
  Diag& diag = diags.error(
      Diagnosis::kControlCharacter, span,
      fmt::format("unsupported control character \\x{:02x}", static_cast<unsigned char>(byte)));
  if (byte == '\0')
    diag.with_hint("if this is a job file, save it as UTF-8");
  else if (byte == '\r')
    diag.with_hint("end lines with LF or CRLF");
  else
    diag.with_hint("delete it, or write an escape in double quotes, as in `\\x1b`");
}

}  // namespace

void read_on(File& file, std::string& text, size_t most) {
  constexpr size_t kChunk = size_t{1} << 16;
  while (text.size() < most) {
    const size_t before = text.size(), wanted = std::min(kChunk, most - before);
    text.resize(before + wanted);
    const size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + got);
    if (got < wanted) return;
  }
}

bool check_text(const Sources& sources, int32_t id, Diags& diags) {
  const std::string_view text = sources[id].text();
  if (text.size() > kLargestFile) {
    diags
        .error(Diagnosis::kFileTooLarge, {},
               fmt::format("{} has {} bytes; expected at most {}", sources[id].name(),
                           size_of(sources[id]), kLargestFile))
        .with_hint("move long lists of numbers to a .npy file");
    return false;
  }
  if (const char* encoding = other_encoding(text)) {
    diags
        .error(Diagnosis::kInvalidUtf8, span_at(id, 0, 2),
               fmt::format("the file is {}; expected UTF-8", encoding))
        .with_hint("save it as UTF-8");
    return false;
  }
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid) {
      diags
          .error(Diagnosis::kInvalidUtf8, span_at(id, at, 1),
                 fmt::format("invalid UTF-8 byte \\x{:02x}", static_cast<unsigned char>(text[at])))
          .with_hint("save the file as UTF-8");
      return false;
    }
    if (!is_allowed(text, at)) {
      report_control_character(diags, span_at(id, at, 1), text[at]);
      return false;
    }
    at += character.bytes;
  }
  return true;
}

}  // namespace flow::yaml
