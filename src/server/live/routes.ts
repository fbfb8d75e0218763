// GET /live: what the lift is doing, for whoever has an admin key. See live/live-event.ts.

import type { FastifyReply } from 'fastify';
import type { ServerContext } from '../context.ts';
import { namedEvents, SseStream } from '../http/sse.ts';
import type { Route } from '../route.ts';
import { LiveViewer } from './live-viewer.ts';

export function liveRoute(context: ServerContext): Route {
  return {
    method: 'GET',
    url: '/live',
    access: 'admin',
    summary: 'What the engines do, four times a second; needs an admin key',
    mediaType: 'text/event-stream',
    exposeHeadRoute: false,
    handler: (_request, reply) => subscribe(context, reply),
  };
}

async function subscribe({ live, settings }: ServerContext, reply: FastifyReply): Promise<void> {
  reply.hijack();
  // A client that left while its key was looked up emits no further close event.
  if (reply.raw.destroyed) return;
  const { keepAliveMs } = settings;
  const stream = new SseStream(reply.raw, reply.getHeaders(), keepAliveMs, undefined, namedEvents);
  // A client that reads nothing for two keep-alive intervals is gone.
  const leave = live.join(new LiveViewer(reply.raw, stream, 2 * keepAliveMs));
  reply.raw.once('close', leave);
}
