// Marks functions that device code calls too. They must stay free of libm, so that both round
// alike.
#pragma once

#ifdef __CUDACC__
#define FLOW_HOST_DEVICE __host__ __device__
#else
#define FLOW_HOST_DEVICE
#endif
