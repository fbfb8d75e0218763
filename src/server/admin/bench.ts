// POST /admin/bench: puts load on this very server and reports its latencies. One runs at a time; it ends when its client leaves.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { messageOf } from '../../runtime/error-message.ts';
import type { BenchRun, ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { readExactBody, rulesFor } from '../http/parse-body.ts';
import { namedEvents, SseStream } from '../http/sse.ts';
import type { BenchProgress, BenchResult } from '../live/live-event.ts';
import { keyOf } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import type { Route } from '../route.ts';

const upTo = (most: number) => z.int().min(1).max(most);

const benchSchema = z.object({
  model: z.string().optional(),
  streams: upTo(64).meta({ description: 'Requests at once.' }),
  requests: upTo(500),
  promptTokens: upTo(4096),
  answerTokens: upTo(1024),
});

export function benchRoute(context: ServerContext): Route {
  const { bench } = context;
  let isRunning = false;
  return {
    method: 'POST',
    url: '/admin/bench',
    access: 'admin',
    summary: 'Put load on this server, one at a time; leaving ends it',
    body: benchSchema,
    mediaType: 'text/event-stream',
    handler: async (request, reply) => {
      if (bench === undefined) throw new ApiError(501, 'this server has no benchmark', { code: 'no_bench' });
      const body = readExactBody(rulesFor(benchSchema), request);
      const asked = { ...body, model: findEntry(context.pool, body.model).name };
      if (isRunning) throw new ApiError(409, 'a benchmark runs already', { code: 'bench_running' });
      isRunning = true;
      try {
        await follow(context, request, reply, (run) => bench(asked, run));
      } finally {
        isRunning = false;
      }
    },
  };
}

async function follow(
  { activity, settings }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  bench: (run: BenchRun) => Promise<BenchResult>,
): Promise<void> {
  const { signal, end } = activity.begin(request, reply, settings.requestTimeoutMs);
  reply.hijack();
  if (reply.raw.destroyed) return end();
  const stream = new SseStream(reply.raw, reply.getHeaders(), settings.keepAliveMs, signal, namedEvents);
  try {
    const onProgress = (progress: BenchProgress) => {
      if (!reply.raw.writableNeedDrain) void stream.send(progress, 'progress');
    };
    const result = await bench({ key: keyOf(request), signal, onProgress });
    signal.throwIfAborted();
    await stream.send(result, 'result');
    await stream.done();
  } catch (error) {
    const failure =
      error instanceof ApiError ? error : new ApiError(502, messageOf(error), { code: 'bench_failed' });
    stream.fail({ event: 'error', data: failure.body() });
  } finally {
    end();
  }
}
