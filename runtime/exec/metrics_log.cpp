// Lines appended one write each; cut at a step when a run is resumed.
#include "runtime/exec/metrics_log.h"

#include <charconv>
#include <span>
#include <string>
#include <string_view>

namespace flow::exec {

namespace {

/// Is this a whole line of to_json_line, of a step below `end`?
bool is_before(std::string_view line, int64_t end) {
  constexpr std::string_view kBegin = "{\"step\":";
  if (!line.starts_with(kBegin) || !line.ends_with('}')) return false;
  int64_t step = 0;
  const auto [rest, error] =
      std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), step);
  return error == std::errc() && step < end;
}

/// The bytes of the leading lines that stand for steps below `end`.
uint64_t length_before(std::string_view text, int64_t end) {
  size_t length = 0;
  while (true) {
    const size_t newline = text.find('\n', length);
    if (newline == std::string_view::npos) return length;
    if (!is_before(text.substr(length, newline - length), end)) return length;
    length = newline + 1;
  }
}

}  // namespace

MetricsLog::MetricsLog(const fs::path& path, int64_t resume_from) {
  std::error_code missing;
  if (resume_from > 0 && fs::exists(path, missing)) {
    const MappedFile file(path);  // which no pipe can be
    const std::span<const std::byte> bytes = file.bytes();
    end_ = length_before({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, resume_from);
  }
  if (end_ == 0) {
    file_ = File::create(path);
    return;
  }
  // In place, so that a crash here loses no line that is kept.
  file_ = File::open_update(path);
  file_.truncate(end_);
}

void MetricsLog::append(const plan::Metrics& metrics) {
  std::string line = plan::to_json_line(metrics);
  line += '\n';
  file_.write_at(end_, std::as_bytes(std::span(line)));
  end_ += line.size();
}

}  // namespace flow::exec
