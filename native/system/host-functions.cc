// Node-API's functions on Windows. An import table there names the file that functions come from, and the program that
// loads the addon is not always called node.exe. So the table's slots, which the compiler names __imp_…, are ours, and are filled
// from whatever program this is when the addon is loaded. A slot that is missing here is an error of the linker.

#include "system/windows.h"

#ifdef _WIN32

// clang-format off
#define CHAIRLIFT_NODE_API(each) \
  each(napi_create_array) \
  each(napi_create_arraybuffer) \
  each(napi_create_async_work) \
  each(napi_create_double) \
  each(napi_create_error) \
  each(napi_create_external) \
  each(napi_create_function) \
  each(napi_create_object) \
  each(napi_create_promise) \
  each(napi_create_reference) \
  each(napi_create_string_utf8) \
  each(napi_create_typedarray) \
  each(napi_delete_async_work) \
  each(napi_delete_reference) \
  each(napi_get_array_length) \
  each(napi_get_boolean) \
  each(napi_get_cb_info) \
  each(napi_get_element) \
  each(napi_get_named_property) \
  each(napi_get_property_names) \
  each(napi_get_typedarray_info) \
  each(napi_get_undefined) \
  each(napi_get_value_bool) \
  each(napi_get_value_double) \
  each(napi_get_value_external) \
  each(napi_get_value_int32) \
  each(napi_get_value_string_utf8) \
  each(napi_is_array) \
  each(napi_is_typedarray) \
  each(napi_queue_async_work) \
  each(napi_reject_deferred) \
  each(napi_resolve_deferred) \
  each(napi_set_element) \
  each(napi_set_named_property) \
  each(napi_throw_error) \
  each(napi_typeof)
// clang-format on

#define CHAIRLIFT_SLOT(name) FARPROC __imp_##name = nullptr;
extern "C" {
CHAIRLIFT_NODE_API(CHAIRLIFT_SLOT)
}
#undef CHAIRLIFT_SLOT

namespace chairlift {

namespace {

struct HostFunction {
  const char* name;
  FARPROC* slot;
};

#define CHAIRLIFT_ENTRY(name) {#name, &__imp_##name},
const HostFunction hostFunctions[] = {CHAIRLIFT_NODE_API(CHAIRLIFT_ENTRY)};
#undef CHAIRLIFT_ENTRY

bool fillFrom(HMODULE module) {
  if (!module) return false;
  for (const HostFunction& function : hostFunctions) {
    *function.slot = GetProcAddress(module, function.name);
    if (!*function.slot) return false;
  }
  return true;
}

}  // namespace

}  // namespace chairlift

/** From the program itself, or from the library of a program that embeds Node. Without either the addon does not load. */
extern "C" BOOL WINAPI DllMain(HINSTANCE, DWORD reason, LPVOID) {
  if (reason != DLL_PROCESS_ATTACH) return TRUE;
  using chairlift::fillFrom;
  return fillFrom(GetModuleHandleW(nullptr)) || fillFrom(GetModuleHandleW(L"libnode.dll"));
}

#endif
