// Creates sinks of every kind. Also writes text files line by line, which are cut to a number of
// lines when a run is resumed.
#include "runtime/io/sink.h"

#include <string_view>

namespace flow::io {

std::unique_ptr<Sink> make_sink(const plan::Sink& options, const SinkContext& context,
                                std::FILE* out, bool json) {
  if (const auto* npy = std::get_if<plan::NpySink>(&options)) return make_npy_sink(*npy, context);
  if (const auto* print = std::get_if<plan::PrintSink>(&options))
    return make_print_sink(*print, context, out, json);
  if (const auto* stats = std::get_if<plan::StatsSink>(&options))
    return make_stats_sink(*stats, context);
  return nullptr;
}

namespace {

/// Returns the length of the first `rows` whole lines of a text, or of all whole lines if it has
/// fewer.
LineLog::Length length_of(std::string_view text, int64_t rows) {
  LineLog::Length length;
  while (length.rows < rows) {
    const size_t newline = text.find('\n', length.bytes);
    if (newline == std::string_view::npos) break;
    length = {length.rows + 1, newline + 1};
  }
  return length;
}

}  // namespace

LineLog::LineLog(const fs::path& path, int64_t rows) {
  std::error_code missing;
  if (rows > 0 && fs::exists(path, missing)) {
    const MappedFile file(path);  // fails for a pipe
    const std::span<const std::byte> bytes = file.bytes();
    length_ = length_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, rows);
    digest_.add(bytes.first(length_.bytes));
  }
  if (length_.rows == 0) {
    file_ = File::create(path);
    return;
  }
  // The file is changed in place, so that a crash here loses no line that is kept.
  file_ = File::open_update(path);
  file_.truncate(length_.bytes);
}

void LineLog::write(std::string line) {
  line += '\n';
  file_.write_at(length_.bytes, std::as_bytes(std::span(line)));
  digest_.add(std::as_bytes(std::span(line)));
  length_ = {length_.rows + 1, length_.bytes + line.size()};
}

void LineLog::cut(const Length& length) {
  file_.truncate(length.bytes);
  length_ = length;
  const MappedFile file(file_.path());
  digest_ = {};
  digest_.add(file.bytes());
}

}  // namespace flow::io
