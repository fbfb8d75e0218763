import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TypicalAnswer } from './typical-answer.ts';

const ROOM = 100_000;

describe('a typical answer', () => {
  it('is a few paragraphs before anything is learnt, and never more than there is room for', () => {
    const typical = new TypicalAnswer();
    expect(typical.expect('a', ROOM)).toBe(256);
    expect(typical.expect('a', 40)).toBe(40);
  });

  it('is learnt for each key by itself, within a few answers', () => {
    const typical = new TypicalAnswer();
    for (let n = 0; n < 10; n++) typical.record('terse', 5);
    expect(typical.expect('terse', ROOM)).toBeLessThan(40);
    expect(typical.expect('other', ROOM)).toBe(256);
  });

  it('follows a key whose use changes, however long it was as before', () => {
    const typical = new TypicalAnswer();
    for (let n = 0; n < 10_000; n++) typical.record('a', 10);
    for (let n = 0; n < 60; n++) typical.record('a', 2000);
    expect(typical.expect('a', ROOM)).toBeGreaterThan(1800);
  });

  it('lies within what was learnt and the prior, whatever was learnt', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5000), { maxLength: 100 }), (answers) => {
        const typical = new TypicalAnswer();
        for (const tokens of answers) typical.record('a', tokens);
        const expected = typical.expect('a', ROOM);
        expect(expected).toBeGreaterThanOrEqual(Math.max(1, Math.min(256, ...answers)));
        expect(expected).toBeLessThanOrEqual(Math.max(256, ...answers) + 1);
        expect(Number.isSafeInteger(expected)).toBe(true);
      }),
    );
  });

  it('leaves most of a small day to what is asked for', () => {
    expect(new TypicalAnswer().expect('key', 4096, 200)).toBe(20);
    expect(new TypicalAnswer().expect('key', 4096, 1_000_000)).toBe(256);
  });
});
