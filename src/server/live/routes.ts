// GET /live: what the lift is doing, for whoever has an admin key. See live/live-event.ts.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../context.ts';
import { namedEvents, SseStream } from '../http/sse.ts';
import { LiveViewer } from './live-viewer.ts';

export function liveRoute(app: FastifyInstance, { live, settings }: ServerContext): void {
  app.get('/live', { exposeHeadRoute: false }, async (_request, reply) => {
    reply.hijack();
    // Gone while its key was looked up: nobody would hear of its leaving again.
    if (reply.raw.destroyed) return;
    const { keepAliveMs } = settings;
    const stream = new SseStream(reply.raw, reply.getHeaders(), keepAliveMs, undefined, namedEvents);
    // Who reads nothing through two signs of life is not there.
    const leave = live.join(new LiveViewer(reply.raw, stream, 2 * keepAliveMs));
    reply.raw.once('close', leave);
  });
}
