import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventReader } from './event-reader.ts';

describe('server-sent events', () => {
  const stream =
    'data: {"a":"ü€😀"}\n\n: a comment\n\nevent: x\r\ndata:one\r\ndata: two\r\n\r\ndata: [DONE]\n\n';
  const events = ['{"a":"ü€😀"}', 'one\ntwo', '[DONE]'];

  it('are the same however their bytes are cut', () => {
    const bytes = Buffer.from(stream);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: bytes.length - 1 })), (places) => {
        const cuts = [0, ...new Set(places), bytes.length].sort((left, right) => left - right);
        const reader = new EventReader();
        const read = cuts.slice(1).flatMap((cut, n) => reader.push(bytes.subarray(cuts[n], cut)));
        expect([...read, ...reader.end()]).toEqual(events);
      }),
    );
  });

  it('are complete as soon as their empty line is there', () => {
    const reader = new EventReader();
    expect(reader.push(Buffer.from('data: 1\n\ndata: 2\n'))).toEqual(['1']);
    expect(reader.push(Buffer.from('\n'))).toEqual(['2']);
  });

  it('include a last one that lacks its empty line', () => {
    const reader = new EventReader();
    expect(reader.push(Buffer.from('data: [DONE]'))).toEqual([]);
    expect(reader.end()).toEqual(['[DONE]']);
  });
});
