// Reading and making JavaScript values through plain Node-API; a failure is a C++ exception that the
// entry point turns into a JavaScript error.
#pragma once

#include "addon/node-api.h"

#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace chairlift {

struct ScriptError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(napi_status status, const char* what) {
  if (status != napi_ok) throw ScriptError(std::string("native addon: ") + what);
}

inline std::vector<napi_value> arguments(napi_env env, napi_callback_info info, size_t expected) {
  size_t count = expected;
  std::vector<napi_value> values(expected);
  check(napi_get_cb_info(env, info, &count, values.data(), nullptr, nullptr), "cannot read the arguments");
  if (count < expected) throw ScriptError("native addon: too few arguments");
  return values;
}

inline double toNumber(napi_env env, napi_value value) {
  double number;
  check(napi_get_value_double(env, value, &number), "expected a number");
  return number;
}

inline int toInt(napi_env env, napi_value value) {
  int32_t number;
  check(napi_get_value_int32(env, value, &number), "expected an integer");
  return number;
}

inline std::string toString(napi_env env, napi_value value) {
  size_t length;
  check(napi_get_value_string_utf8(env, value, nullptr, 0, &length), "expected a string");
  std::string text(length, '\0');
  check(napi_get_value_string_utf8(env, value, text.data(), length + 1, &length), "expected a string");
  return text;
}

inline napi_value property(napi_env env, napi_value object, const char* name) {
  napi_value value;
  check(napi_get_named_property(env, object, name, &value), name);
  return value;
}

/** Nothing where it is undefined. */
inline std::optional<napi_value> maybeProperty(napi_env env, napi_value object, const char* name) {
  const napi_value value = property(env, object, name);
  napi_valuetype type;
  check(napi_typeof(env, value, &type), name);
  return type == napi_undefined ? std::nullopt : std::optional(value);
}

inline std::vector<napi_value> elementsOf(napi_env env, napi_value list) {
  uint32_t length;
  check(napi_get_array_length(env, list, &length), "expected a list");
  std::vector<napi_value> all(length);
  for (uint32_t i = 0; i < length; i++) check(napi_get_element(env, list, i, &all[i]), "cannot read a list");
  return all;
}

template <class T>
struct TypedArray {
  T* data;
  size_t length;
  std::vector<std::remove_const_t<T>> copy() const { return {data, data + length}; }
};

template <class T>
TypedArray<T> toTypedArray(napi_env env, napi_value value, napi_typedarray_type expected, const char* what) {
  bool isTyped = false;
  check(napi_is_typedarray(env, value, &isTyped), what);
  if (!isTyped) throw ScriptError(std::string("native addon: expected a typed array: ") + what);
  napi_typedarray_type type;
  size_t length;
  void* data;
  check(napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr), what);
  if (type != expected) throw ScriptError(std::string("native addon: wrong kind of typed array: ") + what);
  return {static_cast<T*>(data), length};
}

inline TypedArray<int32_t> toInt32Array(napi_env env, napi_value value, const char* what) {
  return toTypedArray<int32_t>(env, value, napi_int32_array, what);
}
inline TypedArray<float> toFloatArray(napi_env env, napi_value value, const char* what) {
  return toTypedArray<float>(env, value, napi_float32_array, what);
}
inline TypedArray<uint8_t> toByteArray(napi_env env, napi_value value, const char* what) {
  return toTypedArray<uint8_t>(env, value, napi_uint8_array, what);
}

inline TypedArray<uint32_t> toWordArray(napi_env env, napi_value value, const char* what) {
  return toTypedArray<uint32_t>(env, value, napi_uint32_array, what);
}

inline napi_value fromNumber(napi_env env, double number) {
  napi_value value;
  check(napi_create_double(env, number, &value), "cannot make a number");
  return value;
}

inline napi_value fromBoolean(napi_env env, bool flag) {
  napi_value value;
  check(napi_get_boolean(env, flag, &value), "cannot make a boolean");
  return value;
}

inline napi_value undefinedValue(napi_env env) {
  napi_value value;
  check(napi_get_undefined(env, &value), "cannot make undefined");
  return value;
}

inline napi_value fromText(napi_env env, const std::string& text) {
  napi_value value;
  check(napi_create_string_utf8(env, text.c_str(), text.size(), &value), "cannot make a text");
  return value;
}

/** A Float64Array. */
inline napi_value fromNumbers(napi_env env, const std::vector<double>& numbers) {
  napi_value buffer, value;
  void* data;
  check(napi_create_arraybuffer(env, numbers.size() * sizeof(double), &data, &buffer), "cannot make an array");
  if (!numbers.empty()) memcpy(data, numbers.data(), numbers.size() * sizeof(double));
  check(napi_create_typedarray(env, napi_float64_array, numbers.size(), buffer, 0, &value), "cannot make an array");
  return value;
}

inline napi_value fromList(napi_env env, const std::vector<napi_value>& elements) {
  napi_value list;
  check(napi_create_array(env, &list), "cannot make a list");
  uint32_t index = 0;
  for (napi_value element : elements) check(napi_set_element(env, list, index++, element), "cannot fill a list");
  return list;
}

/** Runs `body`, turning any C++ exception into a JavaScript one. */
template <class Body>
napi_value guarded(napi_env env, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, nullptr, "out of memory in the native addon");
  } catch (const std::exception& error) {
    napi_throw_error(env, nullptr, error.what());
  }
  return nullptr;
}

/** What JavaScript holds until nothing of it refers to it any more. */
template <class T>
napi_value toExternal(napi_env env, std::unique_ptr<T> owned) {
  napi_value external;
  check(napi_create_external(
            env, owned.get(), [](napi_env, void* data, void*) { delete static_cast<T*>(data); }, nullptr, &external),
        "cannot make a handle");
  owned.release();
  return external;
}

}  // namespace chairlift
