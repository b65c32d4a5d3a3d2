// Tar archives that tests write member by member, so that any field may be wrong.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

namespace flow {

/// A header of tar.
class TarHeader {
 public:
  explicit TarHeader(const std::string& name, size_t size = 0, char type = '0') {
    set(0, name).octal(100, 8, 0644).octal(108, 8, 0).octal(116, 8, 0);
    octal(124, 12, size).octal(136, 12, 0);
    bytes_[156] = type;
    set(257, std::string("ustar\0"
                         "00",
                         8));
  }
  TarHeader& set(size_t offset, const std::string& text) {
    bytes_.replace(offset, text.size(), text);
    return *this;
  }
  TarHeader& octal(size_t offset, int width, size_t number) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*zo", width - 1, number);
    return set(offset, text);
  }
  /// The header with its checksum, to which `error` is added.
  std::string bytes(int error = 0) const {
    TarHeader sealed = *this;
    sealed.set(148, std::string(8, ' '));
    int sum = error;
    for (const char c : sealed.bytes_) sum += static_cast<unsigned char>(c);
    sealed.octal(148, 7, static_cast<size_t>(sum)).set(154, std::string("\0 ", 2));
    return sealed.bytes_;
  }

 private:
  std::string bytes_ = std::string(512, '\0');
};

/// The data of a member, padded to whole blocks.
inline std::string tar_data(const std::string& data) {
  return data + std::string((512 - data.size() % 512) % 512, '\0');
}

inline std::string tar_member(const std::string& name, const std::string& data, char type = '0') {
  return TarHeader(name, data.size(), type).bytes() + tar_data(data);
}

/// An extended header of pax with one record.
inline std::string pax_header(const std::string& key, const std::string& value, char type = 'x') {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (rest + std::to_string(length).size() != length) ++length;
  return tar_member("pax", std::to_string(length) + " " + key + "=" + value + "\n", type);
}

inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace flow
