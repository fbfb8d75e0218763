// GET /live: what the lift is doing, for whoever has an admin key. See live/live-event.ts.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { identify, requireAdmin } from '../auth.ts';
import type { ServerContext } from '../context.ts';
import { LiveViewer } from '../live/live-viewer.ts';
import { namedEvents, SseStream } from '../sse.ts';

const LOOK_AGAIN_MS = 1000;

export function liveRoute(app: FastifyInstance, context: ServerContext): void {
  const { live, settings } = context;
  app.get('/live', { exposeHeadRoute: false }, async (request, reply) => {
    reply.hijack();
    // Gone while its key was looked up: nobody would hear of its leaving again.
    if (reply.raw.destroyed) return;
    const { keepAliveMs } = settings;
    const stream = new SseStream(reply.raw, reply.getHeaders(), keepAliveMs, undefined, namedEvents);
    // Who reads nothing through two signs of life is not there.
    const leave = live.join(new LiveViewer(reply.raw, stream, 2 * keepAliveMs));
    // It may stay for days: a key that was revoked meanwhile opens nothing any more.
    const timer = setInterval(async () => {
      if (!(await mayStay(request, context))) stream.end();
    }, LOOK_AGAIN_MS).unref();
    reply.raw.once('close', () => {
      clearInterval(timer);
      leave();
    });
  });
}

async function mayStay(request: FastifyRequest, { keys, settings }: ServerContext): Promise<boolean> {
  try {
    requireAdmin(await identify(request, keys, settings.allowAnonymous));
    return true;
  } catch {
    return false;
  }
}
