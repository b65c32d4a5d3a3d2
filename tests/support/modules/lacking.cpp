// A module that needs a library which is not found.
extern "C" int absent_version();

extern "C" const char* flow_module_build_id() { return absent_version() ? "" : "0.0.0"; }
