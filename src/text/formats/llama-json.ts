// Llama 3: an answer that is a JSON object with a tool's name is a call. A mark may stand before it, and semicolons
// between several.

import { optional, sequence, text } from '../../grammar/expression.ts';
import { jsonCallGrammar, leading, mark, oneOf, several } from './call-grammar.ts';
import { jsonCall } from './json-call.ts';
import type { ToolFormat } from './tool-format.ts';

// The first is of Llama 3, the others of Llama 4.
const pythonTag = '<|python_tag|>';
const pythonStart = '<|python_start|>';
const pythonEnd = '<|python_end|>';

export const llamaJson: ToolFormat = {
  name: 'llama-json',
  marks: [pythonTag, pythonStart, pythonEnd],
  grammar(tools, mode, parallel) {
    const call = oneOf(tools, (tool) => jsonCallGrammar(tool, 'parameters'));
    const calls = sequence(optional(mark(pythonTag)), several(call, text('; '), parallel));
    return leading(mode, calls, '{', [pythonTag, pythonStart]);
  },
  *read(tape, writer, fresh) {
    const tagged = yield* tape.tookAny([pythonTag, pythonStart]);
    if (!tagged && !fresh) return false;
    if (tagged) yield* tape.skipSpace();
    if (!(yield* jsonCall(tape, writer, tagged))) return false;
    for (;;) {
      tape.begin();
      if (tagged && (yield* tape.tookBehindSpace(pythonEnd))) return true;
      if (!(yield* tape.tookBehindSpace(';'))) return true;
      yield* tape.skipSpace();
      if (yield* jsonCall(tape, writer)) continue;
      writer.spill(tape);
      return true;
    }
  },
};
