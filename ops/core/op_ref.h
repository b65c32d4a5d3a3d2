// An op as plans refer to it: by name in JSON, by its record everywhere else.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace flow::ops {

struct OpSpec;
const OpSpec* find_spec(std::string_view name);

/// A name with its record, looked up once. A plan that was not checked may name an op that does not
/// exist: its record is null.
class OpRef {
 public:
  OpRef() = default;
  OpRef(std::string name) : name_(std::move(name)), spec_(find_spec(name_)) {}
  OpRef(std::string_view name) : OpRef(std::string(name)) {}
  OpRef(const char* name) : OpRef(std::string(name)) {}

  const std::string& name() const { return name_; }
  const OpSpec* spec() const { return spec_; }
  /// REQUIRES: there is a record.
  const OpSpec* operator->() const { return spec_; }
  const OpSpec& operator*() const { return *spec_; }

  friend bool operator==(const OpRef& a, const OpRef& b) { return a.name_ == b.name_; }
  friend bool operator==(const OpRef& op, const OpSpec* spec) { return op.spec_ == spec; }

 private:
  std::string name_;
  const OpSpec* spec_ = nullptr;
};

}  // namespace flow::ops
