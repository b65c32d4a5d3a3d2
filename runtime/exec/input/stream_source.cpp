// Inputs that are read from a pipe, one .npy record in each step.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <system_error>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/input/source.h"
#include "runtime/io/convert.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

/// Returns true for a named pipe, which may not have a writer yet. A descriptor had its writer
/// before this process started.
bool is_named_pipe(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

class StreamSource : public Source {
 public:
  StreamSource(const fs::path& path, InputSpec input)
      : path_(path),
        input_(std::move(input)),
        name_(fmt::format("{}: {}", input_.where, path.string())),
        awaits_writer_(!is_descriptor(path)) {}

  void open() override {
    if (descriptor_.is_open()) return;
    descriptor_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!descriptor_.is_open())
      throw RunError(
          fmt::format("{} cannot be read: {}", name_, std::generic_category().message(errno)));
  }
  std::optional<StreamState> stream() const override {
    pollfd now{descriptor_.get(), POLLIN, 0};
    int bytes = 0;
    ::poll(&now, 1, 0);
    ::ioctl(descriptor_.get(), FIONREAD, &bytes);
    return StreamState{path_.native(), next_, awaits_writer_ && now.revents == 0, bytes > 0,
                       bytes == 0 && (now.revents & POLLHUP) != 0};
  }
  bool fill(const Reading& reading, std::span<std::byte> out) override {
    give_up_ = reading.give_up;
    // A resumed run skips the records that earlier steps read.
    for (; next_ <= reading.step; ++next_)
      if (!read_record(out)) return false;
    return true;
  }
  bool is_seen_reading() const override { return true; }
  std::string nonfinite() override { return found_.load() ? nonfinite_ : ""; }

 private:
  /// Reads until `into` is full or the stream ends. Returns the number of bytes, which is also
  /// smaller if the run gives up.
  size_t read(std::span<std::byte> into) {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t got = ::read(descriptor_.get(), into.data() + done, into.size() - done);
      if (got > 0) {
        done += static_cast<size_t>(got);
        awaits_writer_ = false;
      } else if (got == 0 && !awaits_writer_) {
        break;
      } else if (got < 0 && errno != EAGAIN && errno != EINTR) {
        throw RunError(
            fmt::format("{} cannot be read: {}", name_, std::generic_category().message(errno)));
      } else if (!wait()) {
        gave_up_ = true;
        break;
      }
    }
    return done;
  }

  /// Waits a short time for data or the end of the stream. Returns false if the run no longer
  /// waits.
  bool wait() {
    constexpr int kMilliseconds = 50;
    pollfd waiting{descriptor_.get(), POLLIN, 0};
    ::poll(&waiting, 1, kMilliseconds);
    if (waiting.revents & (POLLHUP | POLLERR)) awaits_writer_ = false;
    return !give_up_ || !*give_up_ || !(*give_up_)();
  }

  bool read_record(std::span<std::byte> out) {
    gave_up_ = false;
    if (!read_header()) return false;
    const io::NpyHeader header = io::parse_npy_header(header_, name_);
    if (header.shape != input_.shape)
      throw RequestError(fmt::format("{}: record {} is {}, but input `{}` is {}", name_, next_,
                                     header.shape.str(), input_.name, input_.shape.str()));
    data_.resize(header.data_bytes());
    if (read(data_) < data_.size()) return truncated();
    if (header.fortran_order || header.narrow != io::Narrow::kNo) reorder();
    convert(header, out);
    return true;
  }

  /// Reads the magic, the length and the text of a header. Returns false if the stream ends before
  /// it.
  bool read_header() {
    constexpr size_t kMagic = 8, kLongest = 1 << 20;
    header_.resize(kMagic);
    const size_t got = read(header_);
    if (got == 0 && next_ == 0 && !gave_up_)
      throw StreamEnded(fmt::format("{} ended before its first record", name_),
                        "check the program that writes it; expected .npy records");
    if (got == 0) return false;
    if (got < kMagic && gave_up_) return false;
    require_record(std::span(header_).first(got));
    if (got < kMagic) return truncated();
    const size_t width = header_[6] == std::byte{1} ? 2 : 4;
    header_.resize(kMagic + width);
    if (read(std::span(header_).subspan(kMagic)) < width) return truncated();
    size_t length = 0;
    for (size_t i = width; i-- > 0;)
      length = length << 8 | std::to_integer<size_t>(header_[kMagic + i]);
    if (length > kLongest)
      throw RunError(fmt::format("{}: record {} is not a .npy: its header has {} bytes", name_,
                                 next_, length));
    header_.resize(kMagic + width + length);
    return read(std::span(header_).subspan(kMagic + width)) == length || truncated();
  }

  /// Checks that a record begins here. The usual mistake is a program that also prints other text
  /// to the pipe.
  void require_record(std::span<const std::byte> begin) const {
    try {
      io::require_npy_magic(begin, fmt::format("{}: record {}", name_, next_));
    } catch (const RunError& error) {
      throw RunError(error.what(),
                     "write only .npy records to the pipe, and text to "
                     "standard error");
    }
  }

  /// Returns false if the run gave up. Throws an error if the stream ended.
  bool truncated() const {
    if (gave_up_) return false;
    throw StreamEnded(fmt::format("{} ends inside record {}", name_, next_));
  }

  void reorder() {
    std::vector<std::byte> whole = header_;
    whole.insert(whole.end(), data_.begin(), data_.end());
    const Array array = io::parse_npy(whole, name_);
    data_.assign(array.bytes().begin(), array.bytes().end());
  }

  void convert(const io::NpyHeader& header, std::span<std::byte> out) {
    // The output of reorder() is in this machine's byte order.
    const bool reordered = header.fortran_order || header.narrow != io::Narrow::kNo;
    const bool big_endian = header.big_endian && !reordered;
    if (!converter_ || header.dtype != dtype_ || big_endian != big_endian_) {
      dtype_ = header.dtype;
      big_endian_ = big_endian;
      converter_.emplace(dtype_, big_endian_, io::Affine{},
                         static_cast<size_t>(input_.shape.elements()));
    }
    note_nonfinite();
    if (const auto misfit = converter_->convert(data_.data(), input_.dtype, out.data()))
      throw RunError(fmt::format("{}: record {} contains {} (element {}), which is not a valid {}",
                                 name_, next_, shortest(misfit->value), misfit->element,
                                 name_of(input_.dtype)));
  }

  /// Stores a description of the first record with values that are not finite.
  void note_nonfinite() {
    if (!is_float(dtype_) || found_.load()) return;
    const int64_t count = io::count_nonfinite(dtype_, big_endian_, data_);
    if (count == 0) return;
    nonfinite_ = io::nonfinite_text(count, path_, fmt::format("in record {}", next_));
    found_.store(true);
  }

  const fs::path path_;
  const InputSpec input_;
  const std::string name_;
  Descriptor descriptor_;
  bool awaits_writer_;  // no program is known to have opened the pipe for writing yet
  bool gave_up_ = false;
  const std::function<bool()>* give_up_ = nullptr;
  int64_t next_ = 0;  // the number of the next record
  std::vector<std::byte> header_, data_;
  std::optional<io::RowConverter> converter_;
  DType dtype_ = DType::kFloat32;
  bool big_endian_ = false;
  std::string nonfinite_;  // not changed after it is set
  std::atomic<bool> found_ = false;
};

}  // namespace

bool is_stream(const fs::path& path) { return is_descriptor(path) || is_named_pipe(path); }

std::unique_ptr<Source> make_stream_source(const fs::path& path, const InputSpec& input) {
  return std::make_unique<StreamSource>(path, input);
}

}  // namespace flow::exec
