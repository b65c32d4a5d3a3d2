// Computes lines and columns of source texts.
#include "compiler/source/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace flow {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

constexpr uint32_t kBlock = 1024;  // in bytes

uint32_t count_characters(std::string_view text) {
  return static_cast<uint32_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

}  // namespace

Source::Source(std::string name, std::string text, bool is_file)
    : name_(std::move(name)), text_(std::move(text)), is_file_(is_file) {
  // Offsets have 32 bits. The parsers reject texts long before they reach this size.
  text_.resize(std::min<size_t>(text_.size(), std::numeric_limits<int32_t>::max()));
  // A byte order mark is not part of the first line. Columns begin after it.
  starts_.push_back(text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', end + 1))
    starts_.push_back(static_cast<uint32_t>(end + 1));
  uint32_t characters = 0;
  for (size_t at = 0; at <= text_.size(); at += kBlock) {
    characters_.push_back(characters);
    characters += count_characters(this->text().substr(at, kBlock));
  }
}

uint32_t Source::characters_before(uint32_t offset) const {
  const uint32_t block = offset / kBlock;
  return characters_[block] +
         count_characters(text().substr(block * kBlock, offset - block * kBlock));
}

std::string_view Source::line(int number) const {
  const uint32_t begin = line_start(number);
  size_t end = number < line_count() ? line_start(number + 1) - 1 : text_.size();
  if (end > begin && text_[end - 1] == '\r' && number < line_count()) --end;
  return std::string_view(text_).substr(begin, end - begin);
}

Position Source::position(uint32_t offset) const {
  const auto after = std::upper_bound(starts_.begin() + 1, starts_.end(), offset);
  const uint32_t begin = *(after - 1);
  const auto end = std::clamp<uint32_t>(offset, begin, static_cast<uint32_t>(text_.size()));
  return {static_cast<int>(after - starts_.begin()),
          static_cast<int>(characters_before(end) - characters_before(begin)) + 1};
}

int32_t Sources::add(std::string name, std::string text) {
  sources_.emplace_back(std::move(name), std::move(text));
  return static_cast<int32_t>(sources_.size() - 1);
}

int32_t Sources::add_words(std::string name, std::string text) {
  sources_.emplace_back(std::move(name), std::move(text), false);
  return static_cast<int32_t>(sources_.size() - 1);
}

std::vector<std::string> Sources::names() const {
  std::vector<std::string> names;
  for (const Source& source : sources_) names.push_back(source.name());
  return names;
}

std::string Sources::where(Span span) const {
  if (!span.valid()) return {};
  const Source& source = (*this)[span.source];
  const Position position = source.position(span.begin);
  return fmt::format("{}:{}:{}", source.name(), position.line, position.column);
}

std::string_view Sources::text(Span span) const {
  if (!span.valid()) return {};
  return (*this)[span.source].text().substr(span.begin, span.end - span.begin);
}

}  // namespace flow
