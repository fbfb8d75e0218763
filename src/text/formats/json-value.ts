// Takes one JSON text from a tape, checking it on the way, so that its exact spelling can be passed on as it comes.

import type { Reading, Tape } from './tape.ts';

type Accept = (text: string) => void;

/**
 * False where it is no JSON: what was accepted until then is a beginning of some. Depth is kept in a list, since a
 * model may write any number of brackets.
 */
export function* jsonValue(tape: Tape, accept: Accept): Reading<boolean> {
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

/** What the string says; nothing where none stands here. */
export function* jsonString(tape: Tape): Reading<string | undefined> {
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
