// .npy headers, whole files and stacks; hostile files most of all.
#include "runtime/io/npy.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <numeric>

#include "tests/support/fresh_directory.h"
#include "tests/support/npy_bytes.h"

namespace flow::io {
namespace {

/// A version 1.0 file with this header text.
std::string file_of(const std::string& header, const std::string& data = {}) {
  std::string file = "\x93NUMPY";
  file +=
      {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return file + header + data;
}

NpyHeader parse(const std::string& file) {
  return parse_npy_header(std::as_bytes(std::span(file)), "x.npy");
}

std::string refusal(const std::string& file) {
  try {
    parse_npy(std::as_bytes(std::span(file)), "x.npy");
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

Array iota(Shape shape) {
  Array array(DType::kFloat32, std::move(shape));
  std::iota(array.as<float>().begin(), array.as<float>().end(), 0.0f);
  return array;
}

std::vector<float> elements_of(const Array& array) {
  return {array.as<float>().begin(), array.as<float>().end()};
}

TEST_CASE("a header tells dtype, shape and order", "[io]") {
  const NpyHeader header =
      parse(file_of("{'descr': '>f8', 'fortran_order': True, 'shape': (100, 1, 28), }    \n"));
  CHECK(header.dtype == DType::kFloat64);
  CHECK(header.shape == Shape{100, 1, 28});
  CHECK(header.fortran_order);
  CHECK(header.big_endian);
  CHECK(header.data_offset == 79);
}

TEST_CASE("keys come in any order, with either quote, and with Python 2's longs", "[io]") {
  const NpyHeader header =
      parse(file_of("{\"shape\": (3L,), \"fortran_order\": False, \"descr\": \"|u1\"}"));
  CHECK(header.shape == Shape{3});
  CHECK(header.dtype == DType::kUInt8);
}

TEST_CASE("headers that are none are refused with a reason", "[io]") {
  const auto has = [](const std::string& file, const std::string& reason) {
    const std::string message = refusal(file);
    INFO(message);
    CHECK(message.starts_with("x.npy "));
    CHECK(message.find(reason) != std::string::npos);
  };
  const std::string f4 = "{'descr': '<f4', 'fortran_order': False, ";
  has("", "is empty");
  has("PNG\n", "begins with `PNG?`");
  has("\x93NUMPY\1", "truncated inside its header");
  has(std::string("\x93NUMPY\x04\0\x10\0\0\0xxxx", 16), "version 4");
  has(file_of(f4 + "'shape': (3,), }").substr(0, 30), "truncated inside its header");
  has(file_of("nonsense"), "invalid .npy header: `nonsense`");
  has(file_of("{'descr': '<f4'}"), "without descr, fortran_order or shape");
  has(file_of(f4 + "'shape': (3,), 'shape': (3,), }"), "unexpected key `shape`");
  has(file_of(f4 + "'color': 3}"), "unexpected key `color`");
  has(file_of(f4 + "'shape': (3,)} trailing"), "invalid .npy header");
  has(file_of(f4 + "'shape': (-3,)}"), "negative extent: -3");
  has(file_of(f4 + "'shape': (99999999999999999999,)}"), "too large");
  has(file_of(f4 + "'shape': (4294967296, 4294967296)}"), "too large");
  has(file_of(f4 + "'shape': (0, 4611686018427387904, 4)}"), "too large");
  has(file_of(f4 + "'shape': (1 2)}"), "invalid .npy header");
  has(file_of(f4 + "'shape': (" + std::string(100, '1') + ")}"), "too large");
  has(file_of("{'descr': '<c8', 'fortran_order': False, 'shape': ()}"), "dtype `<c8`");
  has(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"), "structured");
  has(file_of("{'descr': '<f4', 'fortran_order': 1, 'shape': ()}"), "invalid .npy header");
  std::string axes;
  for (int i = 0; i < 40; ++i) axes += "1,";
  has(file_of(f4 + "'shape': (" + axes + ")}"), "more than 32 axes");
}

TEST_CASE("a file that promises more than it has allocates nothing", "[io]") {
  const std::string file =
      file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", "abcd");
  CHECK(refusal(file) ==
        "x.npy is truncated: 4 bytes of data; [1000000000000] of float32 requires 4000000000000");
}

TEST_CASE("bytes beyond the array are refused", "[io]") {
  CHECK(refusal(npy_bytes(iota({2}).view()) + "x") ==
        "x.npy is too long: 9 bytes of data; [2] of float32 requires 8");
}

TEST_CASE("Fortran order and big-endian numbers become ours", "[io]") {
  const std::string data("\0\1\0\0\0\3\0\0\0\2\0\0\0\4\0\0", 16);
  const std::string file =
      file_of("{'descr': '>i4', 'fortran_order': True, 'shape': (2, 2)}", data);
  const Array array = parse_npy(std::as_bytes(std::span(file)), "x.npy");
  CHECK(std::vector<int32_t>(array.as<int32_t>().begin(), array.as<int32_t>().end()) ==
        std::vector<int32_t>{0x10000, 0x20000, 0x30000, 0x40000});
}

TEST_CASE("a bool of a file is 0 or 1 whatever its byte", "[io]") {
  const std::string file =
      file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", std::string("\0\1\7", 3));
  const Array array = parse_npy(std::as_bytes(std::span(file)), "x.npy");
  CHECK(array.bytes()[2] == std::byte{1});
}

TEST_CASE("data begins on a multiple of 64, and a scalar has an empty tuple", "[io]") {
  const std::string header = npy_header(DType::kFloat32, {});
  CHECK(header.size() == 128);
  CHECK(header.find("'shape': (), }") != std::string::npos);
  CHECK(header.back() == '\n');
  CHECK(npy_header(DType::kBool, {5})
            .find("{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }") == 10);
  CHECK(npy_header(DType::kFloat32, {100, 10}).size() + 4000 == 4128);
}

TEST_CASE("a header that may grow has room for 20 digits", "[io]") {
  const std::string now = npy_header(DType::kFloat64, {0, 3, 224, 224}, true);
  const std::string later = npy_header(DType::kFloat64, {int64_t{1} << 62, 3, 224, 224});
  CHECK(later.size() <= now.size());
}

TEST_CASE("an array survives the way to a file and back", "[io]") {
  const FreshDirectory directory;
  const Array array = iota({2, 3, 4});
  write_npy(directory / "a.npy", array.view());
  const Array back = read_npy(directory / "a.npy");
  CHECK(back.shape() == array.shape());
  CHECK(elements_of(back) == elements_of(array));
  CHECK(read_text(directory / "a.npy") == npy_bytes(array.view()));
}

TEST_CASE("a mapped file is the array that reading it gives", "[io]") {
  const FreshDirectory folder;
  const std::string four(reinterpret_cast<const char*>(iota({4}).bytes().data()), 16);
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  const auto aligned_with = [](std::string text) {
    text.resize(128 - 10, ' ');
    return text;
  };
  const std::string aligned = aligned_with(header);
  const auto mapped = [&](const std::string& bytes) {
    const fs::path path = folder / "x.npy";
    write_text_atomically(path, bytes);
    const MappedNpy npy(path);
    const Array read = read_npy(path);
    CHECK(npy.view().dtype == read.dtype());
    CHECK(npy.view().shape == read.shape());
    CHECK(std::ranges::equal(std::span(npy.view().data, npy.view().bytes()), read.bytes()));
    return reinterpret_cast<uintptr_t>(npy.view().data);
  };
  CHECK(mapped(file_of(aligned, four)) % 4096 == 128);
  CHECK(mapped(file_of(aligned + " ", four)) % 4 == 0);
  mapped(file_of("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }", four));
  mapped(file_of(aligned_with("{'descr': '>f4', 'fortran_order': False, 'shape': (4,), }"), four));
  mapped(file_of(aligned_with("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }"), four));
  mapped(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", four));
  mapped(file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", {0, 1, 2, 3}));
  mapped(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", four.substr(0, 4)));
  mapped(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }"));
}

TEST_CASE("a stack is a whole array after every item", "[io]") {
  const FreshDirectory directory;
  const fs::path path = directory / "watch" / "lenet" / "value.npy";
  NpyStack stack(path, DType::kFloat32, {2, 3});
  CHECK(read_npy(path).shape() == Shape{0, 2, 3});
  for (int64_t n = 1; n <= 12; ++n) {
    stack.append(iota({2, 3}).view());
    REQUIRE(read_npy(path).shape() == Shape{n, 2, 3});
  }
  CHECK(elements_of(read_npy(path))[6 * 11 + 5] == 5);
}

TEST_CASE("a stack of scalars has one axis", "[io]") {
  const FreshDirectory directory;
  NpyStack stack(directory / "loss.npy", DType::kFloat32, {});
  for (int i = 0; i < 3; ++i) stack.append(iota({}).view());
  CHECK(read_npy(directory / "loss.npy").shape() == Shape{3});
}

TEST_CASE("joined rows may end with fewer", "[io]") {
  const FreshDirectory directory;
  NpyStack stack(directory / "rows.npy", DType::kFloat32, {4, 2}, true);
  stack.append(iota({4, 2}).view());
  stack.append(iota({3, 2}).view());
  CHECK(stack.length() == 7);
  const Array rows = read_npy(directory / "rows.npy");
  CHECK(rows.shape() == Shape{7, 2});
  CHECK(elements_of(rows)[13] == 5);
  CHECK_THROWS_AS(stack.append(iota({4, 3}).view()), Defect);
}

TEST_CASE("a stack goes on where a run left it, and drops what came later", "[io]") {
  const FreshDirectory directory;
  const fs::path path = directory / "value.npy";
  {
    NpyStack stack(path, DType::kFloat32, {2});
    for (int i = 0; i < 5; ++i) stack.append(iota({2}).view());
  }
  NpyStack stack = NpyStack::resume(path, DType::kFloat32, {2}, false, 3);
  CHECK(stack.length() == 3);
  CHECK(read_npy(path).shape() == Shape{3, 2});
  stack.append(iota({2}).view());
  CHECK(elements_of(read_npy(path)) == std::vector<float>{0, 1, 0, 1, 0, 1, 0, 1});
}

TEST_CASE("a stack whose header finds no room leaves no file", "[io]") {
  const FreshDirectory directory;
  const fs::path path = directory / "value.npy";
  const pid_t child = ::fork();  // the limit is to be its own
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      NpyStack(path, DType::kFloat32, {2});
    } catch (const RunError&) {
      ::_exit(fs::exists(path) ? 1 : 0);
    }
    ::_exit(2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("data that a crash left uncounted is dropped", "[io]") {
  const FreshDirectory directory;
  const fs::path path = directory / "value.npy";
  { NpyStack(path, DType::kFloat32, {2}).append(iota({2}).view()); }
  write_text_atomically(path, read_text(path) + "half an it");
  NpyStack stack = NpyStack::resume(path, DType::kFloat32, {2}, false, 1);
  stack.append(iota({2}).view());
  CHECK(elements_of(read_npy(path)) == std::vector<float>{0, 1, 0, 1});
}

TEST_CASE("a stack goes on with its own file only", "[io]") {
  const FreshDirectory directory;
  const fs::path path = directory / "value.npy";
  { NpyStack(path, DType::kFloat32, {2}).append(iota({2}).view()); }
  CHECK_THROWS_AS(NpyStack::resume(path, DType::kFloat32, {3}, false, 1), RunError);
  CHECK_THROWS_AS(NpyStack::resume(path, DType::kInt32, {2}, false, 1), RunError);
  CHECK_THROWS_AS(NpyStack::resume(path, DType::kFloat32, {2}, false, 2), RunError);
  const std::string whole = read_text(path);
  write_text_atomically(path, whole.substr(0, whole.size() - 1));
  CHECK_THROWS_AS(NpyStack::resume(path, DType::kFloat32, {2}, false, 1), RunError);
  CHECK_THROWS_AS(NpyStack::resume(directory / "no.npy", DType::kFloat32, {2}, false, 0), RunError);
  write_npy(path, iota({1, 2}).view());
  CHECK(read_npy(path).shape() == Shape{1, 2});
}

}  // namespace
}  // namespace flow::io
