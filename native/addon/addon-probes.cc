// What this machine runs, what things take, and single kernels on their own.

#include "addon/functions.h"
#include "addon/model-handle.h"
#include "addon/probe.h"
#include "addon/to-record.h"
#include "model/reader.h"

namespace chairlift {

namespace {

napi_value fromNames(napi_env env, const std::vector<const char*>& names) {
  napi_value list;
  check(napi_create_array(env, &list), "cannot make a list");
  uint32_t index = 0;
  for (const char* name : names) {
    napi_value text;
    check(napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &text), "cannot make a name");
    check(napi_set_element(env, list, index++, text), "cannot fill a list");
  }
  return list;
}

/** kernels(): names of the kernel tables this machine runs, slowest first */
napi_value kernels(napi_env env, napi_callback_info) {
  return guarded(env, [&] {
    std::vector<const char*> names;
    for (const KernelTable* table : availableKernels()) names.push_back(table->name);
    return fromNames(env, names);
  });
}

/** instructionSets(): names of those this machine runs, slowest first, with or without kernels in this build */
napi_value instructionSetNames(napi_env env, napi_callback_info) {
  return guarded(env, [&] { return fromNames(env, runnableSets()); });
}

/** kvBlockBytes(kvType, caches, stateSize): what one block of KV takes */
napi_value kvBlockBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    const KvLayout layout{toKvType(env, args[0]), readCaches(toRecord(env, args[1], "caches")), toInt(env, args[2])};
    return fromNumber(env, double(layout.blockBytes()));
  });
}

/** matrixBytes(type, outputs, inputs): what a packed matrix takes */
napi_value matrixBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    return fromNumber(env, double(Matrix::bytesOf(toFormat(env, args[0]), toInt(env, args[1]), toInt(env, args[2]))));
  });
}

/** unpack(type, weights: Uint8Array, outputs, inputs, out: Float32Array): rows packed and read back, for tests */
napi_value unpack(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 5);
    probeUnpack(toFormat(env, args[0]), toByteArray(env, args[1], "weights").data, toInt(env, args[2]),
                toInt(env, args[3]), toFloatArray(env, args[4], "out").data);
    return undefinedValue(env);
  });
}

/** multiply(isa, type, weights: Uint8Array, outputs, inputs, x: Float32Array, out: Float32Array): one product, for tests */
napi_value multiply(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 7);
    const SourceFormat& format = toFormat(env, args[1]);
    const auto x = toFloatArray(env, args[5], "x"), out = toFloatArray(env, args[6], "out");
    const auto weights = toByteArray(env, args[2], "weights");
    probeMultiply(chooseKernels(toString(env, args[0])), format, weights.data, toInt(env, args[3]),
                  toInt(env, args[4]), x.data, x.length, out.data);
    return undefinedValue(env);
  });
}

/** timeMultiply(isa, type, outputs, inputs, rows, threads, repeats): seconds per product */
napi_value timeMultiply(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 7);
    const SourceFormat& format = toFormat(env, args[1]);
    const ProductTiming timing =
        probeTime(chooseKernels(toString(env, args[0])), format, toInt(env, args[2]), toInt(env, args[3]),
                  toInt(env, args[4]), toInt(env, args[5]), toInt(env, args[6]));
    napi_value result;
    check(napi_create_object(env, &result), "cannot make an object");
    check(napi_set_named_property(env, result, "seconds", fromNumber(env, timing.seconds)), "seconds");
    check(napi_set_named_property(env, result, "bytes", fromNumber(env, double(timing.bytes))), "bytes");
    return result;
  });
}

/** readBandwidth(threads, megabytes): bytes per second */
napi_value readBandwidth(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    return fromNumber(env, probeReadBandwidth(toInt(env, args[0]), size_t(toInt(env, args[1])) << 20));
  });
}

}  // namespace

const std::vector<Function>& probeFunctions() {
  static const std::vector<Function> all = {
      {"kernels", kernels},
      {"instructionSets", instructionSetNames},
      {"kvBlockBytes", kvBlockBytes},
      {"matrixBytes", matrixBytes},
      {"unpack", unpack},
      {"multiply", multiply},
      {"timeMultiply", timeMultiply},
      {"readBandwidth", readBandwidth},
  };
  return all;
}

}  // namespace chairlift
