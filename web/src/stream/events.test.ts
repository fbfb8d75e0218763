import { describe, expect, it } from 'vitest';
import { eventsOf } from './events.ts';

async function read(...pieces: string[]) {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
      controller.close();
    },
  });
  const events = [];
  for await (const event of eventsOf(new Response(body))) events.push(event);
  return events;
}

describe('events of a stream', () => {
  it('are put together however they were cut', async () => {
    const text = ': alive\n\nevent: tick\ndata: {"a":1}\n\ndata: x\r\ndata: y\r\n\r\n';
    const whole = [
      { event: 'tick', data: '{"a":1}' },
      { event: 'message', data: 'x\ny' },
    ];
    expect(await read(text)).toEqual(whole);
    expect(await read(...text)).toEqual(whole);
  });

  it('that were not ended are not told', async () => {
    expect(await read('data: a\n\ndata: b')).toEqual([{ event: 'message', data: 'a' }]);
  });
});
