// The location of a plan check, for messages.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace flow::plan {

/// A place in a plan: "PATH: job `train`, step `conv1/conv`". Borrows what it is made from.
class Site {
 public:
  explicit Site(const std::string& path) : path_(&path) {}
  Site in_job(std::string_view name) const {
    Site site = *this;
    site.job_ = name;
    return site;
  }
  /// `kind` is the word for it: "step".
  Site at(std::string_view kind, std::string_view name) const {
    Site site = *this;
    site.kind_ = kind;
    site.name_ = name;
    return site;
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
