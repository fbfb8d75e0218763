// GET /admin/events: finished requests and the steps of every engine, as they happen. A client that is too slow for all of
// them misses some, and is sent how many.

import type { FastifyReply } from 'fastify';
import type { EngineMonitor, EngineSubscription } from '../../engine/engine-monitor.ts';
import type { StepEvent } from '../../engine/step-report.ts';
import type { ServerContext } from '../context.ts';
import { LossyStream } from '../http/lossy-stream.ts';
import { SseStream } from '../http/sse.ts';
import type { Route } from '../route.ts';

const POLL_MS = 500;

export function eventsRoute(context: ServerContext): Route {
  return {
    method: 'GET',
    url: '/admin/events',
    access: 'admin',
    summary: 'Steps and finished requests as they happen',
    mediaType: 'text/event-stream',
    handler: (_request, reply) => streamEvents(context, reply),
  };
}

async function streamEvents(
  { activity, feed, pool, settings }: ServerContext,
  reply: FastifyReply,
): Promise<void> {
  reply.hijack();
  // A client that left while its key was looked up emits no further close event.
  if (reply.raw.destroyed) return;
  const stream = new SseStream(reply.raw, reply.getHeaders(), settings.keepAliveMs);
  // A client that reads nothing for two keep-alive intervals is gone.
  const events = new LossyStream(reply.raw, stream, 2 * settings.keepAliveMs);
  const subscribed = new Map<EngineMonitor, EngineSubscription>();
  const subscribeToLoaded = () => {
    if (activity.draining) return stream.end();
    events.cutOffIfStuck();
    const loaded = new Set(pool.loaded().map(({ engine }) => engine.monitor));
    for (const [monitor, subscription] of subscribed) {
      if (loaded.has(monitor)) continue;
      subscription.end();
      subscribed.delete(monitor);
    }
    for (const { name, engine } of pool.loaded()) {
      const { monitor } = engine;
      if (monitor === undefined || subscribed.has(monitor)) continue;
      const stats = (event: StepEvent) => events.send({ model: name, ...event }, 'step');
      subscribed.set(monitor, monitor.subscribe({ stats }));
    }
  };
  const unsubscribeFromFeed = feed.subscribe((finished) => events.send(finished, 'request'));
  const timer = setInterval(subscribeToLoaded, POLL_MS).unref();
  reply.raw.once('close', () => {
    clearInterval(timer);
    unsubscribeFromFeed();
    for (const subscription of subscribed.values()) subscription.end();
  });
  events.send({ models: pool.list() }, 'models');
  subscribeToLoaded();
}
