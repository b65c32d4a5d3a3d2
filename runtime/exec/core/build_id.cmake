# Names a build by what the runtime library and a module that it opens must agree on: version,
# compiler and the headers that both see. `cmake -P` with SOURCE, VERSION, COMPILER and OUT.
file(GLOB_RECURSE headers ${SOURCE}/runtime/base/*.h ${SOURCE}/ops/*.h ${SOURCE}/runtime/plan/*.h
  ${SOURCE}/runtime/io/*.h ${SOURCE}/runtime/exec/*.h)
set(agreed "${VERSION} ${COMPILER}")
foreach(header IN LISTS headers)
  file(SHA256 ${header} hash)
  string(APPEND agreed " ${hash}")
endforeach()
string(SHA256 id "${agreed}")
string(SUBSTRING ${id} 0 12 id)
file(WRITE ${OUT} "// Names this build.\n#define FLOW_BUILD_ID \"${VERSION}-${id}\"\n")
