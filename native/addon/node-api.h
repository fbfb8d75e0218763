// Node-API, as the addon uses it. On Windows its functions are looked up when the addon is loaded: system/host-functions.cc.
#pragma once

#ifdef _WIN32
#define NAPI_EXTERN __declspec(dllimport)
#endif
#include <node_api.h>
