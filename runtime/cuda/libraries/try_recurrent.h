// Does the library run a recurrent layer that it has?
#pragma once

#include <string>

#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

/// Runs such a layer of few rows and steps, and its gradients where it is trained: alone, so that
/// the library is ready before a call is captured, and captured. Returns why one fails, or nothing.
/// RunError if the device has no memory left for that: which kernels compute a job does not depend
/// on what other processes use.
std::string try_recurrent(RecurrentSpec spec, Libraries& libraries, Driver& driver);

}  // namespace flow::cuda
