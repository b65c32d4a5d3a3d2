// A reference from a plan to an op: a name in JSON, the op's record everywhere else.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace flow::ops {

struct OpSpec;
const OpSpec* find_spec(std::string_view name);

/// A name with its record, which is looked up once. The record is null if the op does not exist,
/// which is possible in a plan that was not checked.
class OpRef {
 public:
  OpRef() = default;
  OpRef(std::string name) : name_(std::move(name)), spec_(find_spec(name_)) {}
  OpRef(std::string_view name) : OpRef(std::string(name)) {}
  OpRef(const char* name) : OpRef(std::string(name)) {}

  const std::string& name() const { return name_; }
  const OpSpec* spec() const { return spec_; }
  /// REQUIRES: the record is not null.
  const OpSpec* operator->() const { return spec_; }
  const OpSpec& operator*() const { return *spec_; }

  friend bool operator==(const OpRef& a, const OpRef& b) { return a.name_ == b.name_; }
  friend bool operator==(const OpRef& op, const OpSpec* spec) { return op.spec_ == spec; }

 private:
  std::string name_;
  const OpSpec* spec_ = nullptr;
};

}  // namespace flow::ops
