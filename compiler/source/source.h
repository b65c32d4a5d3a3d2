// Source texts and places in them, also for programs that show plans in the author's terms. A text
// is a job file or a piece of the command line.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace flow {

/// A range of bytes in one source text; an empty one (begin == end) points before `begin`.
struct Span {
  int32_t source = -1;  // index in Sources; negative: nowhere
  uint32_t begin = 0, end = 0;
  bool valid() const { return source >= 0; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// A place as people count: line and column from 1, columns in characters (UTF-8 code points).
struct Position {
  int line = 1, column = 1;
};

/// One text with its lines. Line ends are LF or CRLF; neither is part of a line.
class Source {
 public:
  Source(std::string name, std::string text, bool is_file = true);
  const std::string& name() const { return name_; }  // as the user wrote the path; "--set lr=0.1"
  std::string_view text() const { return text_; }
  bool is_file() const { return is_file_; }  // else of the command line
  int line_count() const { return static_cast<int>(starts_.size()); }
  std::string_view line(int number) const;  // from 1
  Position position(uint32_t offset) const;
  uint32_t line_start(int number) const { return starts_[static_cast<size_t>(number) - 1]; }

 private:
  uint32_t characters_before(uint32_t offset) const;

  std::string name_;
  std::string text_;
  bool is_file_;
  std::vector<uint32_t> starts_;
  std::vector<uint32_t>
      characters_;  // that begin before each block, so that long lines cost little
};

/// All texts of one compilation. Spans hold indices into it; it only grows.
class Sources {
 public:
  int32_t add(std::string name, std::string text);
  /// The same of words of the command line.
  int32_t add_words(std::string name, std::string text);
  std::vector<std::string> names() const;
  const Source& operator[](int32_t id) const { return sources_[static_cast<size_t>(id)]; }
  /// "lenet.yaml:14:11", or "" for an invalid span.
  std::string where(Span span) const;
  std::string_view text(Span span) const;

 private:
  std::deque<Source> sources_;
};

/// What an author wrote as one entry of a job's graph, or of a network that it calls. A repeated
/// entry is there once by itself and once a copy.
struct WrittenEntry {
  std::string name;   // full: "lenet/conv1", "resnet/stage1/0"
  std::string op;     // the op or network that it calls
  std::string where;  // "jobs/lenet.yaml:25:20"
  bool network = false;
};

}  // namespace flow
