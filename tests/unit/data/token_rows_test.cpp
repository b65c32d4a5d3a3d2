// Rows and streams of ids: lines, cutting, padding, places of bad rows, and learned characters.
#include "runtime/data/text/token_rows.h"

#include <zstd.h>

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

using Ids = std::vector<int64_t>;

plan::TextFormat format_of(int64_t length = 0) {
  plan::TextFormat format;
  format.lines = true;
  format.length = length;
  return format;
}

const plan::Replacement kNoReplacement{};

Ids row_of(const TokenRows& rows, int64_t row, int64_t length) {
  Ids ids(static_cast<size_t>(length), -7);
  rows.read(row, ids);
  return ids;
}

/// The only row of a text in this format, read with the format's length.
Ids only_row(const plan::TextFormat& format, std::string_view text) {
  TokenRows rows(format);
  CHECK_FALSE(rows.add(*bytes_tokenizer(), text));
  return row_of(rows, 0, format.length);
}

template <typename Call>
std::string failure_of(Call call) {
  try {
    call();
  } catch (const RunError& error) {
    return error.what();
  }
  return "nothing";
}

struct TextFiles {
  FreshDirectory directory;
  std::vector<fs::path> paths;

  TextFiles(std::initializer_list<std::string> texts) {
    for (const std::string& text : texts) {
      paths.push_back(directory / (std::string(1, static_cast<char>('a' + paths.size())) + ".txt"));
      write_text_atomically(paths.back(), text);
    }
  }
};

TEST_CASE("ids are stored in the narrowest type", "[data]") {
  IdArray ids;
  Ids expected;
  for (const int32_t id : {0, 255, 256, 65535, 65536, std::numeric_limits<int32_t>::max()}) {
    ids.append(std::array{id, 1});
    expected.insert(expected.end(), {id, 1});
    CHECK(ids.element_bytes() == (id < 256 ? 1 : id < 65536 ? 2 : 4));
    CHECK(ids.bytes().size() == expected.size() * ids.element_bytes());
    Ids copy(expected.size());
    ids.copy(0, copy);
    CHECK(copy == expected);
  }
  Ids part(2);
  ids.copy(3, part);
  CHECK(part == Ids{1, 256});
  CHECK(ids[2] == 255);
  ids.append({});
  CHECK(ids.size() == 12);
}

TEST_CASE("rows are cut and padded on either side", "[data]") {
  plan::TextFormat format = format_of(4);
  CHECK(only_row(format, "ab") == Ids{'a', 'b', 0, 0});
  CHECK(only_row(format, "abcdef") == Ids{'a', 'b', 'c', 'd'});
  format.pad = 9;
  format.pad_side = plan::TextFormat::Side::kLeft;
  CHECK(only_row(format, "ab") == Ids{9, 9, 'a', 'b'});
  CHECK(only_row(format, "") == Ids{9, 9, 9, 9});
  format.truncate = plan::TextFormat::Truncate::kStart;
  CHECK(only_row(format, "abcdef") == Ids{'c', 'd', 'e', 'f'});
}

TEST_CASE("begin and end stay when a row is cut", "[data]") {
  plan::TextFormat format = format_of(4);
  format.begin = 1;
  format.end = 2;
  CHECK(only_row(format, "abcdef") == Ids{1, 'a', 'b', 2});
  CHECK(only_row(format, "a") == Ids{1, 'a', 2, 0});
  CHECK(only_row(format, "") == Ids{1, 2, 0, 0});
  format.truncate = plan::TextFormat::Truncate::kStart;
  CHECK(only_row(format, "abcdef") == Ids{1, 'e', 'f', 2});
  format.length = 2;
  CHECK(only_row(format, "abcdef") == Ids{1, 2});
  format.length = 1;
  CHECK(failure_of([&] { only_row(format, "a"); }) ==
        "`length: 1` is too short for `begin` and `end`");
}

TEST_CASE("rows have their own lengths", "[data]") {
  plan::TextFormat format = format_of();
  format.end = 3;
  TokenRows rows(format);
  for (const char* const text : {"abc", "", "a"}) CHECK_FALSE(rows.add(*bytes_tokenizer(), text));
  CHECK(rows.rows() == 3);
  CHECK(rows.length_of(0) == 4);
  CHECK(rows.length_of(1) == 1);
  CHECK(row_of(rows, 1, 2) == Ids{3, 0});
  CHECK(row_of(rows, 2, 2) == Ids{'a', 3});
}

TEST_CASE("rows that are too long can be refused", "[data]") {
  plan::TextFormat format = format_of(3);
  format.truncate = plan::TextFormat::Truncate::kError;
  format.begin = 0;
  TokenRows rows(format);
  CHECK_FALSE(rows.add(*bytes_tokenizer(), "ab"));
  const auto problem = rows.add(*bytes_tokenizer(), "abc");
  REQUIRE(problem);
  CHECK(problem->message == "too many ids: found 4, expected at most 3");
  CHECK(rows.rows() == 2);
}

TEST_CASE("lines end with LF, and files form one sequence", "[data]") {
  const TextFiles files{
      "\xEF\xBB\xBF"
      "ab\r\n\n\r\r\nc\r",
      "", "\n", "d\n"};
  const TextLines lines(files.paths, *bytes_tokenizer(), format_of());
  const TokenRows& rows = lines.rows();
  REQUIRE(rows.rows() == 6);
  CHECK(row_of(rows, 0, 2) == Ids{'a', 'b'});
  CHECK(rows.length_of(1) == 0);
  CHECK(row_of(rows, 2, 1) == Ids{'\r'});
  CHECK(row_of(rows, 3, 2) == Ids{'c', '\r'});
  CHECK(rows.length_of(4) == 0);
  CHECK(row_of(rows, 5, 1) == Ids{'d'});
  CHECK(lines.file_starts() == Ids{0, 4, 4, 5});
  CHECK(lines.place(3) == files.paths[0].string() + ":4");
  CHECK(lines.place(4) == files.paths[2].string() + ":1");
  CHECK(lines.place(5) == files.paths[3].string() + ":1");
}

TEST_CASE("texts without lines or ids are refused", "[data]") {
  const TextFiles files{"", "\xEF\xBB\xBF"};
  const std::string names = files.paths[0].string() + ", " + files.paths[1].string();
  CHECK(failure_of([&] { TextLines(files.paths, *bytes_tokenizer(), format_of()); }) ==
        names + ": the text has no lines");
  CHECK(failure_of([&] { TokenStream(files.paths, *bytes_tokenizer(), {}); }) ==
        names + ": the text is empty");
}

TEST_CASE("lines that are not UTF-8 are bad rows with their places", "[data]") {
  const TextFiles files{"ok\nn\u00e9\xFFx\n", "y\nab\xC3\n"};
  const TextLines lines(files.paths, *code_points_tokenizer(), format_of());
  REQUIRE(lines.bad_rows().size() == 2);
  CHECK(lines.bad_rows()[0].row == 1);
  CHECK(lines.bad_rows()[0].place == files.paths[0].string() + ":2:3");
  CHECK(lines.bad_rows()[0].message == "invalid UTF-8: byte 0xff");
  CHECK(lines.bad_rows()[1].row == 3);
  CHECK(lines.bad_rows()[1].place == files.paths[1].string() + ":2:3");
  CHECK(lines.rows().length_of(1) == 0);
  CHECK(row_of(lines.rows(), 2, 1) == Ids{'y'});
}

TEST_CASE("characters are learned from some rows and refused in others", "[data]") {
  const TextFiles files{"b\u00e9\na😀\nab\n"};
  TextLines lines(files.paths, *code_points_tokenizer(), format_of());
  const std::u32string learned = lines.rows().characters_in(Ids{0, 2});
  CHECK(learned == U"ab\u00e9");
  CHECK(categories_of(learned) == std::vector<std::string>{"a", "b", "\u00e9"});
  CHECK(characters_of(categories_of(learned)) == learned);
  const auto bad = lines.use_characters({learned, kNoReplacement});
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].row == 1);
  CHECK(bad[0].place == files.paths[0].string() + ":2:2");
  CHECK(bad[0].message == "unknown character `😀` (U+1F600)");
  CHECK(row_of(lines.rows(), 0, 2) == Ids{1, 2});
  CHECK(row_of(lines.rows(), 2, 2) == Ids{0, 1});
}

TEST_CASE("categories that are not characters are refused", "[data]") {
  CHECK(failure_of([] { characters_of(std::vector<std::string>{"ab"}); }) ==
        "`ab` is not one character");
  CHECK(failure_of([] { characters_of(std::vector<std::string>{""}); }) ==
        "`` is not one character");
  CHECK(failure_of([] { characters_of(std::vector<std::string>{"\xFF"}); }) ==
        "`invalid UTF-8` is not one character");
}

Ids ids_of(const TokenStream& stream) {
  Ids ids(stream.ids().size());
  stream.ids().copy(0, ids);
  return ids;
}

TEST_CASE("files form one stream with begin and end around each", "[data]") {
  const TextFiles files{"ab\r\n",
                        "\xEF\xBB\xBF"
                        "c"};
  plan::TextFormat format;
  format.begin = 1;
  format.end = 300;
  const TokenStream stream(files.paths, *bytes_tokenizer(), format);
  CHECK(ids_of(stream) == Ids{1, 'a', 'b', '\r', '\n', 300, 1, 'c', 300});
  CHECK(stream.ids().element_bytes() == 2);
  CHECK(stream.file_starts() == Ids{0, 6});
  CHECK(stream.place(7) == "id 1 of " + files.paths[1].string());
  format.end = -1;
  CHECK(failure_of([&] {
          TokenStream(files.paths, *bytes_tokenizer(), format);
        }).find("expected an id from 0 to 2147483647, found -1") != std::string::npos);
}

TEST_CASE("a stream learns characters, but not from begin and end", "[data]") {
  const TextFiles files{"b\u20ac", "ab"};
  plan::TextFormat format;
  format.end = 5;
  TokenStream stream(files.paths, *code_points_tokenizer(), format);
  Ids all(stream.ids().size());
  std::iota(all.begin(), all.end(), 0);
  const std::u32string learned = stream.characters_in(all);
  CHECK(learned == U"ab\u20ac");
  CHECK(stream.characters_in(Ids{0, 2}) == U"b");
  TokenStream again(files.paths, *code_points_tokenizer(), format);
  CHECK(failure_of([&] {
          again.use_characters({U"ab", kNoReplacement});
        }) == "id 1 of " + files.paths[0].string() + ": unknown character `\u20ac` (U+20AC)");
  stream.use_characters({learned, kNoReplacement});
  CHECK(ids_of(stream) == Ids{1, 2, 5, 0, 1, 5});
  CHECK(stream.ids().element_bytes() == 1);
}

TEST_CASE("a stream that is not UTF-8 fails with line and column", "[data]") {
  const TextFiles files{"a\n\u00e9\u00e9\xFF"};
  CHECK(failure_of([&] { TokenStream(files.paths, *code_points_tokenizer(), {}); }) ==
        files.paths[0].string() + ":2:3: invalid UTF-8: byte 0xff");
}

TEST_CASE("text files may be packed", "[data]") {
  const std::string text(100000, 'x');
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  const TextFiles files{packed};
  CHECK(ids_of(TokenStream(files.paths, *bytes_tokenizer(), {})) == Ids(100000, 'x'));
}

}  // namespace
}  // namespace flow::data
