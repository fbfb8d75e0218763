// See to-record.h.

#include "addon/to-record.h"

namespace chairlift {

namespace {

napi_valuetype typeOf(napi_env env, napi_value value) {
  napi_valuetype type;
  check(napi_typeof(env, value, &type), "cannot read a value");
  return type;
}

napi_typedarray_type typeOfArray(napi_env env, napi_value value) {
  napi_typedarray_type type;
  check(napi_get_typedarray_info(env, value, &type, nullptr, nullptr, nullptr, nullptr), "cannot read an array");
  return type;
}

Record listOf(napi_env env, napi_value value, const char* name) {
  Record::List list;
  for (napi_value element : elementsOf(env, value)) list.push_back(toRecord(env, element, name));
  return Record(std::move(list));
}

Record objectOf(napi_env env, napi_value value) {
  napi_value names;
  check(napi_get_property_names(env, value, &names), "expected an object");
  Record::Fields fields;
  for (napi_value name : elementsOf(env, names)) {
    const std::string text = toString(env, name);
    const napi_value field = property(env, value, text.c_str());
    if (typeOf(env, field) != napi_undefined) fields.push_back({text, toRecord(env, field, text.c_str())});
  }
  return Record(std::move(fields));
}

}  // namespace

Record toRecord(napi_env env, napi_value value, const char* name) {
  const napi_valuetype type = typeOf(env, value);
  if (type == napi_number) return Record(toNumber(env, value));
  if (type == napi_string) return Record(toString(env, value));
  if (type == napi_boolean) {
    bool flag;
    check(napi_get_value_bool(env, value, &flag), "expected a flag");
    return Record(flag);
  }
  if (type != napi_object) throw ScriptError(std::string("native addon: expected plain data: ") + name);
  bool isTyped = false, isList = false;
  check(napi_is_typedarray(env, value, &isTyped), "expected plain data");
  if (isTyped && typeOfArray(env, value) == napi_int32_array) return Record(toInt32Array(env, value, name).copy());
  if (isTyped) return Record(toFloatArray(env, value, name).copy());
  check(napi_is_array(env, value, &isList), "expected plain data");
  return isList ? listOf(env, value, name) : objectOf(env, value);
}

}  // namespace chairlift
