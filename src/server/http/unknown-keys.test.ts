import { describe, expect, it } from 'vitest';
import { unknownKeys } from './unknown-keys.ts';

describe('unknown keys', () => {
  const known = {
    'messages[]': ['role'],
    options: ['a', 'inner'],
    'options.inner': ['b'],
    'tools[].function': [],
  };

  it('are found in objects, in lists and in what these hold, each once', () => {
    const body = {
      messages: [{ role: 'user', x: 1 }, { x: 2, y: 3 }, 'no object', null],
      options: { a: 1, inner: { b: 1, c: 2 } },
      tools: [{ function: { z: 0 } }, {}],
      other: { of: 'no concern' },
    };
    expect(unknownKeys(known, body)).toEqual([
      'messages[].x',
      'messages[].y',
      'options.inner.c',
      'tools[].function.z',
    ]);
  });

  it('are none where they are null, or where something else is given', () => {
    expect(unknownKeys(known, { messages: [{ x: null }], options: 'odd', tools: {} })).toEqual([]);
    expect(unknownKeys(known, { messages: 'odd', options: [{ x: 1 }] })).toEqual([]);
  });
});
