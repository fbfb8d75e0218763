import { describe, expect, it } from 'vitest';
import { EventStream } from './event-stream.ts';

describe('an event stream', () => {
  it('is the same however its bytes are cut, within characters and line ends too', () => {
    const bytes = Buffer.from(
      'event: x\r\ndata: {"é":\r\ndata:1}\r\n\r\n: comment\n\ndata: [DONE]\n\ndata: half',
    );
    for (let size = 1; size <= bytes.length; size++) {
      const stream = new EventStream();
      const events: string[] = [];
      for (let at = 0; at < bytes.length; at += size)
        events.push(...stream.push(bytes.subarray(at, at + size)));
      expect(events, `pieces of ${size}`).toEqual(['{"é":\n1}', '[DONE]']);
    }
  });

  it('refuses an event without an end', () => {
    const stream = new EventStream();
    const endless = () => {
      for (let n = 0; n < 100; n++) stream.push(Buffer.alloc(64 * 1024, 'x'));
    };
    expect(endless).toThrow(/too long/);
    const lines = new EventStream();
    expect(() => {
      for (let n = 0; n < 100; n++) lines.push(Buffer.from(`data: ${'x'.repeat(64 * 1024)}\n`));
    }).toThrow(/too long/);
  });
});
