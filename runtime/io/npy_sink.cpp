// Writes values as .npy files: stacked in one file that grows with the run, or one file per step.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "runtime/base/file_operations.h"
#include "runtime/io/elements.h"
#include "runtime/io/npy.h"
#include "runtime/io/sink.h"

namespace flow::io {

namespace {

/// The part of an interrupted run's stack that is kept.
struct Kept {
  int64_t events = 0;
  int64_t length = 0;  // number of values, or of all their rows if they are joined
};

/// Counts the events that are kept, at most `most`, in the list of steps at `path`.
Kept count_kept(const fs::path& path, const SinkContext& context, int64_t most) {
  const MappedFile file(path);
  const NpyHeader header = parse_npy_header(file.bytes(), path.string());
  if (header.dtype != DType::kInt64 || header.shape.rank() != 1 || header.big_endian)
    throw RunError(fmt::format("cannot continue {}: not a list of steps", path.string()));
  const std::span<const std::byte> data = file.bytes().subspan(header.data_offset);
  const auto whole = static_cast<int64_t>(data.size() / sizeof(int64_t));
  most = std::min({most, header.shape[0], whole});
  Kept kept;
  for (; kept.events < most; ++kept.events) {
    int64_t step = 0;
    std::memcpy(&step, data.data() + static_cast<size_t>(kept.events) * sizeof(step), sizeof(step));
    if (step < 0 || step >= context.resume_from) break;
    kept.length += context.rows_at ? context.rows_at(step) : 1;
  }
  return kept;
}

/// Returns the number of events that a list of steps had at the checkpoint, or nothing if the
/// checkpoint does not record it.
std::optional<int64_t> recorded_events(const SinkContext& context, const fs::path& steps) {
  const auto bytes = context.recorded_bytes(steps);
  return bytes ? std::optional(static_cast<int64_t>(*bytes / sizeof(int64_t))) : std::nullopt;
}

/// Returns true if the file has entries. A file that is missing, empty or only has its header has
/// none.
bool has_entries(const fs::path& path) {
  std::error_code missing;
  if (fs::is_regular_file(path, missing) && fs::file_size(path, missing) == 0) return false;
  if (!fs::exists(path, missing)) return false;
  const NpyHeader header = parse_npy_header(MappedFile(path).bytes(), path.string());
  return header.shape.rank() == 0 || header.shape[0] > 0;
}

class StackedNpySink : public Sink {
 public:
  explicit StackedNpySink(const SinkContext& context)
      : StackedNpySink(context, stacked_files(context.directory, context.gradient)) {}

  void deliver(const Event& event) override {
    // The value is written first: after a crash there may be a value without its step, but never a
    // step without its value.
    values_.append(delivered_(event.value));
    steps_.append({DType::kInt64, Shape{}, reinterpret_cast<const std::byte*>(&event.step)});
  }

  void close() override {
    values_.close();
    steps_.close();
  }

  void list_files(std::vector<GrowingFile>& files) const override {
    for (const NpyStack* stack : {&values_, &steps_})
      files.push_back({stack->path(), stack->data_bytes(), stack->digest()});
  }

 private:
  StackedNpySink(const SinkContext& context, const std::pair<fs::path, fs::path>& files)
      : kept_(kept_of(context, files.first, files.second)),
        delivered_(context.dtype, context.shape),
        values_(open(files.first, Delivered::dtype_of(context.dtype), context.shape,
                     context.rows_at != nullptr, &Kept::length)),
        steps_(open(files.second, DType::kInt64, {}, false, &Kept::events)) {
    if (!context.digests) return;
    values_.keep_digest();
    steps_.keep_digest();
  }

  /// Returns what an earlier run delivered, or nothing if it delivered nothing. If only one of the
  /// two files has entries, count_kept or NpyStack::resume reports the other one.
  static std::optional<Kept> kept_of(const SinkContext& context, const fs::path& values,
                                     const fs::path& steps) {
    if (context.resume_from == 0) return {};
    const std::optional<int64_t> recorded = recorded_events(context, steps);
    const bool any = recorded ? *recorded > 0 : has_entries(values) || has_entries(steps);
    if (!any) return {};
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    return count_kept(steps, context, recorded.value_or(kAll));
  }

  NpyStack open(const fs::path& path, DType dtype, const Shape& item, bool joined,
                int64_t Kept::*length) const {
    return kept_ ? NpyStack::resume(path, dtype, item, joined, (*kept_).*length)
                 : NpyStack(path, dtype, item, joined);
  }

  const std::optional<Kept> kept_;
  Delivered delivered_;
  NpyStack values_, steps_;
};

class PerStepNpySink : public Sink {
  static constexpr std::string_view kSuffix = ".npy";

 public:
  explicit PerStepNpySink(const SinkContext& context)
      : directory_(context.directory),
        prefix_(context.gradient ? "diff_" : ""),
        delivered_(context.dtype, context.shape) {
    make_folders(directory_);
    if (context.resume_from > 0) drop_from(context.resume_from);
  }

  void deliver(const Event& event) override {
    // A file gets its name only when it is complete, because another program may wait for it.
    const fs::path path = directory_ / fmt::format("{}{:06}.npy", prefix_, event.step);
    const ArrayView value = delivered_(event.value);
    Replacement fresh(path);
    fresh.file().write(npy_header(value.dtype, value.shape));
    fresh.file().write(std::span(value.data, value.bytes()));
    fresh.commit();
  }

 private:
  /// Returns the step of one of this sink's files, or -1 for any other file.
  int64_t step_of(std::string_view name) const {
    int64_t step = -1;
    if (!name.starts_with(prefix_)) return -1;
    const auto [end, error] =
        std::from_chars(name.data() + prefix_.size(), name.data() + name.size(), step);
    return error == std::errc() && std::string_view(end, name.data() + name.size()) == kSuffix
               ? step
               : -1;
  }

  /// Returns true for an unfinished file that a killed run left, such as
  /// ".000020.npy.0123456789abcdef.tmp".
  bool is_begun(std::string_view name) const {
    if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return false;
    const size_t end = name.find(kSuffix);
    return end != std::string_view::npos && step_of(name.substr(1, end + kSuffix.size() - 1)) >= 0;
  }

  void drop_from(int64_t step) const try {
    std::vector<fs::path> dropped;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory_))
      if (const std::string name = entry.path().filename(); step_of(name) >= step || is_begun(name))
        dropped.push_back(entry.path());
    for (const fs::path& path : dropped)
      if (const std::error_code error = remove_path(path))
        throw fs::filesystem_error("remove", path, error);
  } catch (const fs::filesystem_error& error) {
    throw RunError(
        fmt::format("cannot continue in {}: {}", directory_.string(), error.code().message()));
  }

  fs::path directory_;
  std::string prefix_;
  Delivered delivered_;
};

}  // namespace

std::pair<fs::path, fs::path> stacked_files(const fs::path& directory, bool gradient) {
  return {directory / (gradient ? "diff.npy" : "value.npy"),
          directory / (gradient ? "diff_steps.npy" : "steps.npy")};
}

std::unique_ptr<Sink> make_npy_sink(const plan::NpySink& options, const SinkContext& context) {
  if (options.per_step) return std::make_unique<PerStepNpySink>(context);
  return std::make_unique<StackedNpySink>(context);
}

}  // namespace flow::io
