import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { unreadResponse } from '../../../test/support/unread-response.ts';
import { LossyStream } from './lossy-stream.ts';
import { SseStream } from './sse.ts';

const opened: (() => void)[] = [];
afterEach(() => {
  for (const close of opened.splice(0)) close();
});

/** Both ends of one stream; the reader reads nothing until it is resumed. */
async function connect(patienceMs: number) {
  const { response, reader, close } = await unreadResponse();
  opened.push(close);
  const events = new LossyStream(response, new SseStream(response, {}, 60_000), patienceMs);
  return { response, reader: await reader, events };
}

const filler = 'x'.repeat(1_000_000);
const tick = () => new Promise((resolve) => setTimeout(resolve, 1));

describe('events for a viewer', () => {
  it('do not gather where it does not read, and it hears how many it has missed', async () => {
    const { response, reader, events } = await connect(60_000);
    let sent = 0;
    let mostBuffered = 0;
    // More than sockets hold by themselves.
    for (; sent < 100; sent++) {
      events.send({ n: sent, filler }, 'request');
      mostBuffered = Math.max(mostBuffered, response.writableLength);
      await tick();
    }
    expect(mostBuffered).toBeLessThan(2 * filler.length);
    let text = '';
    reader.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    reader.resume();
    await eventually(() => expect(response.writableNeedDrain).toBe(false));
    events.send({ n: sent++ }, 'request');
    await eventually(() => expect(text).toContain('"n":100}'));
    const counts = [...text.matchAll(/event: dropped\ndata: {"count":(\d+)}/g)].map(([, count]) =>
      Number(count),
    );
    const dropped = counts.reduce((sum, count) => sum + count, 0);
    expect(dropped).toBeGreaterThan(0);
    expect(dropped + (text.match(/event: request/g)?.length ?? 0)).toBe(sent);
    response.end();
  });

  it('end where it takes nothing for too long, and not before', async () => {
    const { response, events } = await connect(200);
    events.cutOffIfStuck();
    for (let n = 0; n < 50; n++) {
      events.send(filler, 'step');
      await tick();
    }
    expect(response.destroyed).toBe(false);
    await eventually(() => {
      events.cutOffIfStuck();
      expect(response.destroyed).toBe(true);
    });
  });
});
