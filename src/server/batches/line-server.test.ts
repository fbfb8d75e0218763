import fastify from 'fastify';
import { expect, it } from 'vitest';
import type { ServerContext } from '../context.ts';
import { defaultSettings } from '../settings.ts';
import { LineServer } from './line-server.ts';

/** A server whose pool has one model. */
function lineServer(isGateway: boolean): LineServer {
  return new LineServer(fastify(), {
    pool: { list: () => [{ name: 'here', aliases: [], path: '' }] },
    limiter: { apart: () => ({}) },
    settings: defaultSettings,
    activity: { draining: true },
    ...(isGateway ? { fleet: {} } : {}),
  } as unknown as ServerContext);
}

it('lets a line wait in a fleet whose model was there when the batch was read, and is not any more', async () => {
  const line = (model: string) =>
    ({
      id: '1',
      endpoint: '/v1/completions',
      body: JSON.stringify({ model, prompt: 'x' }),
      caller: {},
      signal: new AbortController().signal,
    }) as Parameters<LineServer['run']>[0];
  expect(await lineServer(true).run(line('gone'))).toEqual({ kind: 'later', afterMs: 30_000 });
  // What refuses is the server, which says how long to wait.
  for (const [isGateway, model] of [
    [true, 'here'],
    [false, 'gone'],
  ] as const) {
    expect(await lineServer(isGateway).run(line(model))).toMatchObject({ kind: 'later', afterMs: 5000 });
  }
});
