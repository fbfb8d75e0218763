// A plain JavaScript object, read property by property.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "addon/napi-values.h"

namespace chairlift {

class ScriptObject {
 public:
  ScriptObject(napi_env env, napi_value value) : env_(env), value_(value) {}

  double number(const char* name) const { return toNumber(env_, property(env_, value_, name)); }
  int integer(const char* name) const { return toInt(env_, property(env_, value_, name)); }
  std::string text(const char* name) const { return toString(env_, property(env_, value_, name)); }
  ScriptObject object(const char* name) const { return {env_, property(env_, value_, name)}; }

  bool has(const char* name) const {
    napi_valuetype type;
    check(napi_typeof(env_, property(env_, value_, name), &type), name);
    return type != napi_undefined;
  }
  bool isText(const char* name) const {
    napi_valuetype type;
    check(napi_typeof(env_, property(env_, value_, name), &type), name);
    return type == napi_string;
  }
  double number(const char* name, double otherwise) const { return has(name) ? number(name) : otherwise; }
  int integer(const char* name, int otherwise) const { return has(name) ? integer(name) : otherwise; }
  bool flag(const char* name) const {
    bool value = false;
    if (has(name)) check(napi_get_value_bool(env_, property(env_, value_, name), &value), name);
    return value;
  }
  std::optional<ScriptObject> maybe(const char* name) const {
    if (!has(name)) return std::nullopt;
    return object(name);
  }

  /** A Float32Array; empty where there is none. */
  std::vector<float> floats(const char* name) const {
    if (!has(name)) return {};
    return toFloatArray(env_, property(env_, value_, name), name).copy();
  }
  std::vector<double> doubles(const char* name) const {
    return toTypedArray<double>(env_, property(env_, value_, name), napi_float64_array, name).copy();
  }

  std::vector<int32_t> integers(const char* name) const {
    return toInt32Array(env_, property(env_, value_, name), name).copy();
  }

  std::vector<ScriptObject> list(const char* name) const { return object(name).elements(); }
  /** Of this, which is a list itself. */
  std::vector<ScriptObject> elements() const {
    uint32_t length;
    check(napi_get_array_length(env_, value_, &length), "expected a list");
    std::vector<ScriptObject> all;
    for (uint32_t i = 0; i < length; i++) {
      napi_value element;
      check(napi_get_element(env_, value_, i, &element), "cannot read a list");
      all.emplace_back(env_, element);
    }
    return all;
  }

 private:
  napi_env env_;
  napi_value value_;
};

}  // namespace chairlift
