// Does the library run a recurrent layer that it has?
#pragma once

#include <string>

#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

/// Runs such a layer of few rows and steps, and its gradients where it is trained: alone, so that
/// the library is ready before a call is captured, and captured. Returns why one fails, or nothing.
/// Where the device has too little memory for it, that is why.
std::string try_recurrent(RecurrentSpec spec, Libraries& libraries, Driver& driver);

}  // namespace flow::cuda
