import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { natsRefusal, startNats } from '../../test/support/nats-server.ts';
import { connectNats } from './nats-bus.ts';

const refusal = natsRefusal();
const folder = mkdtempSync(join(tmpdir(), 'chairlift-bus-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.skipIf(refusal !== undefined)(`a bus over NATS (${refusal ?? 'a real server'})`, () => {
  // The client waits longer for each attempt to reconnect than this test may take.
  it('closes though the message system falls silent before the last words are out', async () => {
    const server = await startNats(folder);
    try {
      const listeners = { refusal: () => undefined, onProblem: () => {} };
      const bus = await connectNats({ servers: `127.0.0.1:${server.port}` }, listeners);
      bus.subscribe('a.subject', () => {});
      await bus.connection.flush();
      server.freeze();
      await bus.close();
      expect(bus.connection.isClosed()).toBe(true);
    } finally {
      await server.stop();
    }
  }, 20_000);
});
