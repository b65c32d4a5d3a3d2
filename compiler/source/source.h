// Declares source texts and positions in them. A text is a job file or a part of the command line.
// Programs that display plans in the terms of the job file also use this header.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace flow {

/// A range of bytes in one source text. An empty range (begin == end) points to the place before
/// `begin`.
struct Span {
  int32_t source = -1;  // index in Sources; negative for no place
  uint32_t begin = 0, end = 0;
  bool valid() const { return source >= 0; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// A position in the form that users read: line and column begin at 1, and columns count characters
/// (UTF-8 code points).
struct Position {
  int line = 1, column = 1;
};

/// One text and its lines. Lines end with LF or CRLF, which is not part of the line.
class Source {
 public:
  Source(std::string name, std::string text, bool is_file = true);
  // The path as the user wrote it, or a flag such as "--set lr=0.1".
  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }
  bool is_file() const { return is_file_; }  // false for the command line
  int line_count() const { return static_cast<int>(starts_.size()); }
  std::string_view line(int number) const;  // `number` begins at 1
  Position position(uint32_t offset) const;
  uint32_t line_start(int number) const { return starts_[static_cast<size_t>(number) - 1]; }

 private:
  uint32_t characters_before(uint32_t offset) const;

  std::string name_;
  std::string text_;
  bool is_file_;
  std::vector<uint32_t> starts_;
  std::vector<uint32_t>
      // The number of characters before each block. Makes position() fast in long lines.
      characters_;
};

/// All texts of one compilation. Spans store indices into it; it only grows.
class Sources {
 public:
  int32_t add(std::string name, std::string text);
  /// Adds a text of the command line.
  int32_t add_words(std::string name, std::string text);
  std::vector<std::string> names() const;
  const Source& operator[](int32_t id) const { return sources_[static_cast<size_t>(id)]; }
  /// Returns a position such as "lenet.yaml:14:11", or "" for an invalid span.
  std::string where(Span span) const;
  std::string_view text(Span span) const;

 private:
  std::deque<Source> sources_;
};

/// One entry of a job's graph, or of a network that it calls, as its author wrote it. A repeated
/// entry appears once itself and once for each copy.
struct WrittenEntry {
  std::string name;   // full name, such as "lenet/conv1", "resnet/stage1/0"
  std::string op;     // the op or network that it calls
  std::string where;  // a position such as "jobs/lenet.yaml:25:20"
  bool network = false;
};

}  // namespace flow
