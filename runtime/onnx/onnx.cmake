# Models of ONNX, in and out: messages that protoc makes from Debian's onnx.proto. flowc alone links
# them.
find_package(Protobuf REQUIRED)
find_path(ONNX_PROTO_DIR onnx/onnx.proto REQUIRED)
set(onnx_messages ${CMAKE_BINARY_DIR}/generated/messages)
file(MAKE_DIRECTORY ${onnx_messages})
add_custom_command(OUTPUT ${onnx_messages}/onnx.pb.cc ${onnx_messages}/onnx.pb.h VERBATIM
  COMMAND protobuf::protoc --proto_path=${ONNX_PROTO_DIR}/onnx --cpp_out=${onnx_messages} onnx.proto
  DEPENDS ${ONNX_PROTO_DIR}/onnx/onnx.proto)
# No code of ours: no warnings, no sanitizers.
add_library(flow_onnx_messages OBJECT ${onnx_messages}/onnx.pb.cc)
target_include_directories(flow_onnx_messages SYSTEM PUBLIC ${onnx_messages})
target_link_libraries(flow_onnx_messages PUBLIC protobuf::libprotobuf)

flow_library(flow_onnx STATIC runtime/onnx)
target_sources(flow_onnx PRIVATE $<TARGET_OBJECTS:flow_onnx_messages>)
target_link_libraries(flow_onnx PUBLIC flow_runtime flow_onnx_messages)
