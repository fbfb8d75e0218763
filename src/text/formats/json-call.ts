// Calls that are JSON: an object with a name and arguments, or a list of them. Arguments are emitted as they come
// once the name is a tool's; until then all may turn out to be text.

import type { Tool } from './answer-part.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Reading, Tape } from './tape.ts';

/** Some models write `parameters`. */
const argumentKeys: readonly string[] = ['arguments', 'parameters'];

/** How a call without a mark may begin. */
const callKeys: readonly string[] = [...argumentKeys, 'name', 'type', 'id', 'function'];

/** True once the call has begun, even if its arguments break off: what follows is text. */
export function* jsonArguments(tape: Tape, writer: AnswerWriter, tool: Tool): Reading<boolean> {
  if ((yield* tape.peek()) !== '{') return false;
  writer.call(tool);
  const whole = yield* jsonValue(tape, (text) => {
    writer.arguments(text);
    tape.begin();
  });
  if (whole) writer.closeCall();
  return true;
}

/** True where a call began. Without a mark, an object must look like a call from its first key on. */
export function* jsonCall(tape: Tape, writer: AnswerWriter, isMarked = true): Reading<boolean> {
  if (!(yield* tape.took('{'))) return false;
  let tool: Tool | undefined;
  let early: string | undefined;
  let begun = false;
  for (;;) {
    yield* tape.skipSpace();
    const key = yield* jsonString(tape);
    if (key === undefined || !(isMarked || callKeys.includes(key))) return begun;
    yield* tape.skipSpace();
    if (!(yield* tape.took(':'))) return begun;
    yield* tape.skipSpace();
    if (key === 'name' && tool === undefined) {
      const name = yield* jsonString(tape);
      tool = name === undefined ? undefined : writer.find(name);
      if (tool === undefined) return false;
      writer.pend(tool);
      if (early !== undefined) writer.pendArguments(early, true);
    } else if (argumentKeys.includes(key) && !begun && early === undefined) {
      if (tool === undefined) {
        early = yield* heldObject(tape);
        if (early === undefined) return false;
      } else {
        begun = yield* jsonArguments(tape, writer, tool);
        if (!begun) return false;
      }
    } else if (!(yield* jsonValue(tape, () => undefined))) return begun;
    yield* tape.skipSpace();
    if (yield* tape.took('}')) break;
    if (!(yield* tape.took(','))) return begun;
  }
  if (begun || tool === undefined || early === undefined) return begun;
  writer.whole(tool, early);
  return true;
}

/** A list of calls, or one. True where at least one began; a later invalid one is text. */
export function* jsonCalls(tape: Tape, writer: AnswerWriter): Reading<boolean> {
  if ((yield* tape.peek()) === '{') return yield* jsonCall(tape, writer);
  if (!(yield* tape.took('['))) return false;
  yield* tape.skipSpace();
  if (!(yield* jsonCall(tape, writer))) return false;
  for (;;) {
    tape.begin();
    yield* tape.skipSpace();
    if (yield* tape.took(']')) return true;
    if (yield* tape.took(',')) {
      yield* tape.skipSpace();
      if (yield* jsonCall(tape, writer)) continue;
    }
    writer.spill(tape);
    return true;
  }
}

function* heldObject(tape: Tape): Reading<string | undefined> {
  let raw = '';
  if ((yield* tape.peek()) !== '{') return undefined;
  const whole = yield* jsonValue(tape, (text) => {
    raw += text;
  });
  return whole ? raw : undefined;
}

type Accept = (text: string) => void;

/**
 * Accepts one JSON value piece by piece; false where it is no JSON. Depth is kept in a list, since a model may write
 * any number of brackets.
 */
function* jsonValue(tape: Tape, accept: Accept): Reading<boolean> {
  const closers: string[] = [];
  let state: 'value' | 'opened' | 'key' | 'valued' = 'value';
  for (;;) {
    if (state === 'valued' && closers.length === 0) return true;
    yield* space(tape, accept);
    const symbol = (yield* tape.peek()) ?? '';
    const closer = closers.at(-1);
    if (symbol === closer && (state === 'opened' || state === 'valued')) {
      accept(tape.take());
      closers.pop();
      state = 'valued';
    } else if (state === 'valued') {
      if (symbol !== ',') return false;
      accept(tape.take());
      state = closer === '}' ? 'key' : 'value';
    } else if (state === 'key' || (state === 'opened' && closer === '}')) {
      if (!(yield* key(tape, accept))) return false;
      state = 'value';
    } else if (symbol === '{' || symbol === '[') {
      accept(tape.take());
      closers.push(symbol === '{' ? '}' : ']');
      state = 'opened';
    } else {
      if (!(yield* scalar(tape, accept))) return false;
      state = 'valued';
    }
  }
}

function* jsonString(tape: Tape): Reading<string | undefined> {
  let raw = '';
  const whole = yield* quoted(tape, (text) => {
    raw += text;
  });
  return whole ? (JSON.parse(raw) as string) : undefined;
}

function* space(tape: Tape, accept: Accept): Reading {
  for (;;) {
    const symbol = yield* tape.peek();
    if (symbol !== ' ' && symbol !== '\n' && symbol !== '\r' && symbol !== '\t') return;
    accept(tape.take());
  }
}

function* key(tape: Tape, accept: Accept): Reading<boolean> {
  if (!(yield* quoted(tape, accept))) return false;
  yield* space(tape, accept);
  if ((yield* tape.peek()) !== ':') return false;
  accept(tape.take());
  return true;
}

function* scalar(tape: Tape, accept: Accept): Reading<boolean> {
  const symbol = yield* tape.peek();
  if (symbol === '"') return yield* quoted(tape, accept);
  for (const word of ['true', 'false', 'null'])
    if (yield* tape.took(word)) {
      accept(word);
      return true;
    }
  return yield* number(tape, accept);
}

function* number(tape: Tape, accept: Accept): Reading<boolean> {
  let spelled = '';
  for (;;) {
    const symbol = yield* tape.peek();
    if (symbol === undefined || !/^[-+.\deE]$/.test(symbol)) break;
    spelled += symbol;
    accept(tape.take());
  }
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/.test(spelled);
}

function* quoted(tape: Tape, accept: Accept): Reading<boolean> {
  if ((yield* tape.peek()) !== '"') return false;
  accept(tape.take());
  for (;;) {
    const symbol = yield* tape.peek();
    if (symbol === undefined || symbol.length > 1 || symbol < ' ') return false;
    accept(tape.take());
    if (symbol === '"') return true;
    if (symbol === '\\' && !(yield* escaped(tape, accept))) return false;
  }
}

function* escaped(tape: Tape, accept: Accept): Reading<boolean> {
  const symbol = (yield* tape.peek()) ?? '';
  if (!/^["\\/bfnrtu]$/.test(symbol)) return false;
  accept(tape.take());
  for (let digit = 0; symbol === 'u' && digit < 4; digit++) {
    if (!/^[\da-fA-F]$/.test((yield* tape.peek()) ?? '')) return false;
    accept(tape.take());
  }
  return true;
}
