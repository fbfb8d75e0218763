"""Holds answers to the types of their clients. Reads lines of JSON, a type's name and a value; writes one for each value
that the type does not take as it is, without any coercion."""

import importlib
import json
import sys

from pydantic import TypeAdapter, ValidationError

adapters = {}


def adapter(name):
    if name not in adapters:
        module, _, attribute = name.rpartition(".")
        adapters[name] = TypeAdapter(getattr(importlib.import_module(module), attribute))
    return adapters[name]


for line in sys.stdin:
    name, value = json.loads(line)
    try:
        adapter(name).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        print(json.dumps({"type": name, "problems": problems[:8], "value": json.dumps(value)[:500]}), flush=True)
