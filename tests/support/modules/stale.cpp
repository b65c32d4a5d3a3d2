// A module as another build of flow would have it. Only its build id may be asked for.
#include <cstdlib>

extern "C" {
const char* flow_module_build_id() { return "0.0.0-stale"; }
const char* flow_module_find(const char**, const char**) { std::abort(); }
void* flow_module_make_backend(int) { std::abort(); }
}
