// In a library that is not found when the module that needs it is opened.
extern "C" int absent_version() { return 0; }
