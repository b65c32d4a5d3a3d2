// Reads and writes caches. The record contains the size and the time of each column, so that a
// column that another run wrote is noticed. The record is compared as text, because a list of a
// million files would take long to parse.
#include "runtime/data/files/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>

#include "runtime/base/display.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/names.h"
#include "runtime/data/files/unpack.h"
#include "runtime/io/npy.h"

namespace flow::data {

namespace {

/// Returns true for the name of a column, or of an array that belongs to it.
bool is_array_name(std::string_view name) {
  const size_t dot = name.find('.');
  return is_name(name.substr(0, dot)) && (dot == name.npos || is_name(name.substr(dot + 1)));
}

std::string column_file(const std::string& dataset, const std::string& column) {
  return fmt::format("{}.{}.npy", dataset, column);
}

fs::path record_path(const fs::path& folder, const std::string& dataset) {
  return folder / (dataset + ".json");
}

/// Returns the first part of a record. Names that are not UTF-8 are escaped.
std::string describe(const CacheSource& source) {
  std::string text = fmt::format("{{\"version\": 1,\n\"keys\": {},\n\"files\": [\n",
                                 plan::json_string(source.keys));
  for (const FileState& file : source.files)
    fmt::format_to(std::back_inserter(text), "{{\"name\": {}, \"size\": {}, \"time\": {}}}{}\n",
                   plan::json_string(escaped(file.name)), file.size, file.time,
                   &file == &source.files.back() ? "" : ",");
  return text + "],\n";
}

/// Returns the second part of a record that begins with `expected`, as one JSON object, or nothing
/// if the record begins differently or is damaged.
std::optional<Json> read_record(const fs::path& path, std::string_view expected) {
  require_regular_file(path);
  const MappedFile file(path);
  std::string rest = "{";
  file.recovering([&] {
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
    if (text.starts_with(expected) && text.size() - expected.size() < kLargestRecord)
      rest += text.substr(expected.size());
  });
  try {
    return plan::parse_json(rest, path.string());
  } catch (const RequestError&) {
    return std::nullopt;
  }
}

/// Opens a column whose record is `json`, or returns nothing if another run has written it. The
/// file is mapped before its state is read, so it cannot be replaced in between unnoticed.
std::optional<io::Rows> open_column(const fs::path& folder, const std::string& name,
                                    const Json& json) {
  try {
    io::Rows rows = io::read_npy_rows(folder / name, [](const Shape&) {});
    const FileState state = file_state(folder, name);
    const bool same = json.is_object() && json.value("size", Json()) == state.size &&
                      json.value("time", Json()) == state.time;
    if (same) return rows;
  } catch (const RunError&) {
    // The column is missing or damaged, so the cache is made again.
  }
  return std::nullopt;
}

}  // namespace

std::optional<CachedColumns> open_cache(const fs::path& folder, const std::string& dataset,
                                        const CacheSource& source) {
  const fs::path path = record_path(folder, dataset);
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return std::nullopt;
  const std::optional<Json> record = read_record(path, describe(source));
  if (!record || !record->contains("columns") || !record->contains("details") ||
      !(*record)["columns"].is_object())
    return std::nullopt;
  CachedColumns cached{{}, (*record)["details"]};
  for (const auto& [name, json] : (*record)["columns"].items()) {
    if (!is_array_name(name)) return std::nullopt;
    std::optional<io::Rows> rows = open_column(folder, column_file(dataset, name), json);
    if (!rows) return std::nullopt;
    cached.columns.emplace(name, *std::move(rows));
  }
  const auto rows_of = [](const auto& column) { return column.second.shape[0]; };
  const bool equal = std::ranges::adjacent_find(cached.columns, std::not_equal_to(), rows_of) ==
                     cached.columns.end();
  if (!equal) return std::nullopt;
  return cached;
}

/// A column under its temporary name, whose header is completed at the end.
class CacheWriter::ColumnFile {
 public:
  ColumnFile(const fs::path& path, CacheColumn column)
      : column_(std::move(column)),
        row_bytes_(static_cast<size_t>(column_.row_shape.elements()) * size_of(column_.dtype)),
        path_(path),
        temporary_(temporary_beside(path)),
        file_(File::create_new(temporary_, path)) {
    add(header());
  }
  ~ColumnFile() {
    if (!temporary_.empty()) remove_path(temporary_);
  }
  ColumnFile(const ColumnFile&) = delete;
  ColumnFile& operator=(const ColumnFile&) = delete;

  const std::string& name() const { return column_.name; }
  int64_t rows() const { return rows_; }

  void append(std::span<const std::byte> row) {
    FLOW_CHECK(row.size() == row_bytes_, "{} bytes for {}", row.size(), path_.string());
    add({reinterpret_cast<const char*>(row.data()), row.size()});
    ++rows_;
  }

  /// Completes the file, and returns its state. The name in the state is the temporary one.
  FileState finish() {
    flush();
    const std::string completed = header();
    file_.write_at(0, std::as_bytes(std::span(completed)));
    file_.sync();
    file_.close();
    return file_state(temporary_.parent_path(), temporary_.filename().string());
  }

  void rename() {
    if (calls::rename(temporary_, path_) != 0) throw cannot("write", path_, errno);
    temporary_.clear();
  }

 private:
  static constexpr size_t kBuffer = size_t{1} << 20;

  std::string header() const {
    std::vector<int64_t> extents = {rows_};
    extents.insert(extents.end(), column_.row_shape.begin(), column_.row_shape.end());
    return io::npy_header(column_.dtype, Shape(std::move(extents)), true);
  }

  void add(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kBuffer) flush();
  }

  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  const CacheColumn column_;
  const size_t row_bytes_;
  const fs::path path_;
  fs::path temporary_;  // empty after rename()
  File file_;
  std::string buffer_;
  int64_t rows_ = 0;
};

namespace {

/// Removes the temporary files that killed runs left behind. A file that was written within the
/// last day is kept, because it may belong to a run that is still in progress.
void remove_abandoned(const fs::path& folder, const std::string& dataset) {
  constexpr std::chrono::hours kDay(24);
  const std::string begin = fmt::format(".{}.", dataset);
  std::error_code error, unknown;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(kTemporarySuffix)) continue;
    const auto time = fs::last_write_time(at->path(), unknown);
    if (!unknown && time < fs::file_time_type::clock::now() - kDay) remove_path(at->path());
  }
}

}  // namespace

CacheWriter::CacheWriter(const fs::path& folder, const std::string& dataset,
                         const CacheSource& source, std::span<const CacheColumn> columns)
    : folder_(folder), dataset_(dataset), record_(describe(source)) {
  FLOW_CHECK(is_name(dataset), "{}", dataset);
  make_folders(folder);
  remove_abandoned(folder, dataset);
  for (const CacheColumn& column : columns) {
    FLOW_CHECK(is_array_name(column.name), "{}", column.name);
    files_.push_back(
        std::make_unique<ColumnFile>(folder / column_file(dataset, column.name), column));
  }
}

CacheWriter::~CacheWriter() = default;

void CacheWriter::append(size_t column, std::span<const std::byte> row) {
  files_[column]->append(row);
}

void CacheWriter::commit(const Json& details) {
  Json columns = Json::object();
  for (const auto& file : files_) {
    FLOW_CHECK(file->rows() == files_[0]->rows(), "{} rows", file->rows());
    const FileState state = file->finish();
    columns[file->name()] = {{"size", state.size}, {"time", state.time}};
  }
  for (const auto& file : files_) file->rename();
  record_ += fmt::format("\"columns\": {},\n\"details\": {}}}\n", columns.dump(),
                         details.dump(-1, ' ', true, Json::error_handler_t::replace));
  write_text_atomically(record_path(folder_, dataset_), record_);
}

}  // namespace flow::data
