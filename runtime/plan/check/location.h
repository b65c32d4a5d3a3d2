// The location of a plan check, for messages.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace flow::plan {

/// A place in a plan: "PATH: job `train`, step `conv1/conv`". Borrows what it is made from.
class Location {
 public:
  explicit Location(const std::string& path) : path_(&path) {}
  Location in_job(std::string_view name) const {
    Location location = *this;
    location.job_ = name;
    return location;
  }
  /// `kind` is the word for it: "step".
  Location at(std::string_view kind, std::string_view name) const {
    Location location = *this;
    location.kind_ = kind;
    location.name_ = name;
    return location;
  }

  /// Throws the RequestError of this place.
  [[noreturn]] void refuse(const std::string& what) const;
  template <typename... Args>
  void require(bool good, fmt::format_string<Args...> format, Args&&... args) const {
    if (!good) refuse(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const std::string* path_;
  std::string_view job_, kind_, name_;
};

}  // namespace flow::plan
