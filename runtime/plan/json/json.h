// The one door to nlohmann/json.
#pragma once

#include <nlohmann/json.hpp>

namespace flow {

using Json = nlohmann::json;  // sorted keys
using OrderedJson =
    nlohmann::ordered_json;  // keys in the order of insertion, for events and records

}  // namespace flow
