"""Runs the cases of a client's program one after another; each becomes a line of JSON that says whether it held."""

import asyncio
import inspect
import json
import sys
import traceback

_cases = []


def case(name):
    def add(function):
        _cases.append((name, function))
        return function

    return add


def run():
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    for name, function in _cases:
        if only not in name:
            continue
        error = None
        try:
            result = function()
            if inspect.iscoroutine(result):
                asyncio.run(result)
        except BaseException:
            error = traceback.format_exc(limit=-4)
        print(json.dumps({"name": name, "error": error}), flush=True)


URL = sys.argv[1] if len(sys.argv) > 1 else ""
MODEL = "demo"
GREETING = "Hello, who are you?"
WEATHER = "What is the weather in Oslo?"
MEETING = "Extract name, age and city as JSON from this text: Meet Nora. Nora is 34 years old and lives in Bergen."
