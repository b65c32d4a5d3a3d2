// In place of libcuda.so.1, which flow only asks for.
extern "C" int cuInit(unsigned) { return 100; }  // no device
