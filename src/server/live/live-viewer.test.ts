import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { unreadResponse } from '../../../test/support/unread-response.ts';
import { namedEvents, SseStream } from '../http/sse.ts';
import { LiveViewer } from './live-viewer.ts';

const opened: (() => void)[] = [];
afterEach(() => {
  for (const close of opened.splice(0)) close();
});

/** Both ends of one stream; the reader reads nothing until it is resumed. */
async function connect(patienceMs: number) {
  const { response, reader, close } = await unreadResponse();
  opened.push(close);
  const stream = new SseStream(response, {}, 60_000, undefined, namedEvents);
  const viewer = new LiveViewer(response, stream, patienceMs);
  return { response, reader: await reader, viewer };
}

const filler = 'x'.repeat(200_000);
const frame = (event: string, n: number) => Buffer.from(namedEvents.frame({ n, filler }, event));

describe('a viewer', () => {
  it('that stops reading costs no more than one message, and begins anew once it reads again', async () => {
    const { response, reader, viewer } = await connect(60_000);
    let mostBuffered = 0;
    const tell = (n: number) => viewer.send(frame('tick', n), () => frame('snapshot', n), 0);
    // More than sockets hold by themselves.
    for (let n = 0; n < 300; n++) {
      tell(n);
      mostBuffered = Math.max(mostBuffered, response.writableLength);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(mostBuffered).toBeLessThan(3 * filler.length);
    let text = '';
    reader.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    reader.resume();
    await eventually(() => expect(response.writableNeedDrain).toBe(false));
    tell(300);
    await eventually(() => expect(response.writableNeedDrain).toBe(false));
    tell(301);
    await eventually(() => expect(text).toContain('"n":301'));
    const heard = [...text.matchAll(/event: (\w+)\ndata: {"n":(\d+)/g)].map(
      ([, event, n]) => `${event} ${n}`,
    );
    expect(heard[0]).toBe('snapshot 0');
    expect(heard[1]).toBe('tick 1');
    expect(heard.length).toBeLessThan(250);
    expect(heard.slice(-2)).toEqual(['snapshot 300', 'tick 301']);
  });

  it('that takes nothing for too long is cut off, and not before', async () => {
    const { response, viewer } = await connect(1000);
    const tell = (nowMs: number) => viewer.send(frame('tick', 0), () => frame('snapshot', 0), nowMs);
    while (!response.writableNeedDrain) {
      tell(0);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    // Sockets may still take some.
    await new Promise((resolve) => setTimeout(resolve, 50));
    while (!response.writableNeedDrain) tell(0);
    tell(10);
    tell(1000);
    expect(response.destroyed).toBe(false);
    tell(1010);
    expect(response.destroyed).toBe(true);
  });
});
