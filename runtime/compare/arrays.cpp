// Lists the arrays of a file, a folder or a run directory, and their steps. Computes percentiles of
// errors, and where along each axis most of the error is.
#include "runtime/compare/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/io/elements.h"
#include "runtime/io/npz.h"

namespace flow::compare {
namespace {

/// Returns true if a link leads to a folder that contains the link.
bool leads_upwards(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_symlink(error) || !entry.is_directory(error)) return false;
  const fs::path target = fs::canonical(entry.path(), error);
  const fs::path folder = fs::canonical(entry.path().parent_path(), error);
  return std::ranges::mismatch(target, folder).in1 == target.end();
}

/// Throws RequestError if a link in a run leads out of the run. Other directories of arrays may
/// contain links like this, because some programs store large files elsewhere.
void require_own(const fs::path& path, const Side& side) {
  std::error_code unknown;
  if (side.kind == Kind::kRun && fs::is_symlink(path, unknown))
    require_link_inside(side.path, path);
}

/// Calls read(npz). Throws RunError if the file is truncated while it is read.
template <typename Read>
void read_archive(const fs::path& path, Read read) {
  const MappedFile file(path);
  file.recovering([&] { read(io::Npz(file.bytes(), path.string())); });
}

/// An archive that cannot be read becomes an array without a name, whose verdict gives the reason.
void collect_archive(const fs::path& path, const std::string& prefix, Side& side) try {
  read_archive(path, [&](const io::Npz& npz) {
    for (const std::string& array : npz.arrays())
      side.arrays.emplace(prefix + array, path.string() + '/' + array);
  });
} catch (const RunError&) {
  side.arrays.emplace(prefix.empty() ? path.stem().string() : prefix.substr(0, prefix.size() - 1),
                      path);
}

/// Splits "golden/weights.npz/dense/bias" into the archive and the name of the array in it. For any
/// other path, the name is empty.
std::pair<fs::path, std::string> place_of(const fs::path& array) {
  constexpr std::string_view kInside = ".npz/";
  const std::string text = array.string();
  std::error_code unknown;
  for (size_t at = text.find(kInside); at != text.npos; at = text.find(kInside, at + 1))
    if (fs::path file = text.substr(0, at + kInside.size() - 1); fs::is_regular_file(file, unknown))
      return {file, text.substr(at + kInside.size())};
  return {array, ""};
}

void collect(const fs::path& folder, const std::string& prefix, Side& side) {
  std::error_code error;
  require_own(folder, side);
  if (!fs::is_directory(folder, error)) return;
  fs::path path = folder;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error),
      end;
  for (; !error && entry != end; entry.increment(error)) {
    path = entry->path();
    if (leads_upwards(*entry)) throw cannot("read", path, ELOOP);
    require_own(path, side);
    std::error_code unreachable;  // a later verdict reports the error
    if (entry->is_directory(unreachable)) continue;
    fs::path name = path.lexically_relative(folder);
    if (path.extension() == ".npz")
      collect_archive(path, prefix + name.generic_string() + "/", side);
    if (path.extension() != ".npy") continue;
    name.replace_extension();
    side.arrays.emplace(prefix + name.generic_string(), path);
  }
  if (error) throw cannot("read", path, error.value());
}

Kind kind_of(const fs::path& path) {
  if (!fs::exists(path))
    throw RequestError(fmt::format("no such file or directory: {}", path.string()),
                       "name two .npy files, two directories of them, or two runs");
  if (!fs::is_directory(path)) return path.extension() == ".npz" ? Kind::kArchive : Kind::kFile;
  return fs::exists(path / exec::kPlanFile) ? Kind::kRun : Kind::kFolder;
}

constexpr int64_t kMostProfiled = int64_t{1} << 23;

/// Returns the value at `fraction` of the sorted values, interpolated. Reorders the values.
double percentile(Doubles& values, double fraction) {
  const double place = fraction * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), below, values.end());
  if (below + 1 == values.end()) return *below;
  const double above = *std::min_element(below + 1, values.end());
  return *below + (place - std::floor(place)) * (above - *below);
}

}  // namespace

const char* words_for(Kind kind) {
  static constexpr std::array kWords = {"a file", "an archive", "a directory", "a run directory"};
  return kWords[static_cast<size_t>(kind)];
}

fs::path file_of(const fs::path& array) { return place_of(array).first; }

OpenArray::OpenArray(const fs::path& path) {
  const fs::path file = file_of(path);
  if (file.extension() != ".npz") {
    mapped_.emplace(file);
    return;
  }
  unpacked_ = read_array(path);
  view_ = unpacked_.view();
}

Array read_array(const fs::path& path) {
  const auto [file, member] = place_of(path);
  if (file.extension() != ".npz") return io::read_npy(file);
  Array array;
  read_archive(file, [&, &name = member](const io::Npz& npz) {
    array = io::parse_npy(npz.read(name).bytes, path.string());
  });
  return array;
}

io::NpyHeader read_header(const fs::path& path) {
  const auto [file, member] = place_of(path);
  io::NpyHeader header;
  if (file.extension() == ".npz") {
    read_archive(file, [&, &name = member](const io::Npz& npz) { header = npz.header(name); });
    return header;
  }
  const MappedFile mapped(file);
  header = io::parse_npy_header(mapped.bytes(), file.string());
  io::check_npy_length(header, mapped.bytes().size(), file.string());
  return header;
}

std::optional<int64_t> Side::checkpoint_step() const {
  return whole_number(checkpoint.filename().string());
}

Side list_side(const fs::path& path) {
  Side side{.path = path, .kind = kind_of(path), .arrays = {}, .checkpoint = {}};
  if (side.kind == Kind::kFile) side.arrays.emplace(path.stem().string(), path);
  if (side.kind == Kind::kArchive) collect_archive(path, "", side);
  if (side.kind == Kind::kFolder) collect(path, "", side);
  if (side.kind != Kind::kRun) return side;
  for (const std::string part : {"returns", "watch", "also"})
    collect(path / part, part + "/", side);
  require_own(path / io::kCheckpointsFolder, side);
  if (const auto newest = io::CheckpointFolder(path).newest()) {
    side.checkpoint = *newest;
    collect(side.checkpoint, "checkpoint/", side);
  }
  return side;
}

void require_same_kind(const Side& golden, const Side& out) {
  if (golden.kind == out.kind) return;
  throw RequestError(fmt::format("`{}` is {}, but `{}` is {}", golden.path.string(),
                                 words_for(golden.kind), out.path.string(), words_for(out.kind)),
                     "compare the same kind, for example RUN/returns with a directory");
}

std::optional<NameOfStep> step_in_name(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string stem = name.substr(0, digits);
  if (!stem.empty() && !stem.ends_with('/') && !stem.ends_with("diff_")) return {};
  const auto step = whole_number(name.substr(digits));
  return step ? std::optional(NameOfStep{stem, *step}) : std::nullopt;
}

bool has_step_numbers(const std::string& name) {
  const std::string last = name.substr(name.rfind('/') + 1);  // without a slash, npos + 1 is 0
  return last == "steps" || last == "diff_steps";
}

std::vector<int64_t> steps_of(const Side& side, const std::string& name, int64_t extent) {
  if (const auto named = step_in_name(name)) return {named->step};
  if (side.kind == Kind::kRun && name.starts_with("checkpoint/")) {
    const auto step = side.checkpoint_step();
    return step ? std::vector{*step} : std::vector<int64_t>();
  }
  const size_t slash = name.rfind('/');
  const std::string folder = slash == name.npos ? "" : name.substr(0, slash + 1);
  const std::string last = name.substr(folder.size());
  const auto found = side.arrays.find(folder + (last == "diff" ? "diff_steps" : "steps"));
  if ((last != "diff" && last != "value") || found == side.arrays.end()) return {};
  try {
    const Array steps = read_array(found->second);
    const bool one_each =
        steps.dtype() == DType::kInt64 && steps.shape().rank() == 1 && steps.shape()[0] == extent;
    if (!one_each) return {};
    const auto values = steps.as<int64_t>();
    return {values.begin(), values.end()};
  } catch (const RunError&) {  // the verdict of that file reports it
    return {};
  }
}

std::vector<int64_t> steps_of_file(const Side& side, const std::string& name) {
  const auto found = side.arrays.find(name);
  if (found == side.arrays.end()) return {};
  try {
    const Shape shape = read_header(found->second).shape;
    return steps_of(side, name, shape.rank() > 0 ? shape[0] : 0);
  } catch (const RunError&) {  // the verdict of that file reports it
    return {};
  }
}

Doubles doubles_of(const ArrayView& array) {
  return io::visit_elements(array, [](auto elements) {
    Doubles values(elements.size());
    std::ranges::transform(elements, values.begin(),
                           [](const auto& element) { return static_cast<double>(element); });
    return values;
  });
}

std::vector<int64_t> index_of(int64_t flat, const Shape& shape) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0; flat /= shape[axis])
    index[static_cast<size_t>(axis)] = flat % shape[axis];
  return index;
}

int64_t stride_of(const Shape& shape, int axis) { return shape.from(axis + 1).elements(); }

std::vector<double> sums_along(const Doubles& values, const Shape& shape, int axis) {
  const int64_t extent = shape[axis], stride = stride_of(shape, axis);
  std::vector<double> sums(static_cast<size_t>(extent));
  for (size_t i = 0; i < values.size(); ++i)
    sums[i / static_cast<size_t>(stride) % sums.size()] += values[i];
  return sums;
}

Errors::Errors(const Doubles& golden, const Doubles& out) : squares(golden.size()) {
  for (size_t i = 0; i < golden.size(); ++i) {
    const double error = std::abs(out[i] - golden[i]);
    finite += std::isfinite(error);
    squares[i] = std::isfinite(error) ? error : 0;
    peak = std::max(peak, squares[i]);
  }
  if (peak == 0) return;
  for (double& value : squares) {
    value = square(value);
    total += value;
  }
}

std::optional<ErrorProfile> profile_errors(const ArrayView& golden, const ArrayView& out) {
  if (golden.shape.elements() > kMostProfiled) return {};
  const Doubles a = doubles_of(golden), b = doubles_of(out);
  const Errors errors(a, b);
  if (errors.total == 0) return {};
  ErrorProfile profile;
  for (int axis = 0; axis < golden.shape.rank(); ++axis) {
    if (golden.shape[axis] < 2) continue;
    const auto sums = sums_along(errors.squares, golden.shape, axis);
    const auto most = std::ranges::max_element(sums);
    profile.axes.push_back({axis, most - sums.begin(), *most / errors.total});
  }
  Doubles distances;
  distances.reserve(static_cast<size_t>(errors.finite));
  for (size_t i = 0; i < a.size(); ++i)
    if (const double distance = std::abs(b[i] - a[i]); std::isfinite(distance))
      distances.push_back(distance);
  profile.median = percentile(distances, 0.5);
  profile.percentile_90 = percentile(distances, 0.9);
  profile.percentile_99 = percentile(distances, 0.99);
  return profile;
}

}  // namespace flow::compare
