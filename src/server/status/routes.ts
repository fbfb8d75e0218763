// GET /health, /ready and /metrics: free of anything about clients.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../context.ts';
import { serves } from './health.ts';

/** Liveness and readiness: open to all who reach the port. */
export function probeRoutes(app: FastifyInstance, context: ServerContext): void {
  const { activity, health, readiness, version } = context;

  // Whoever restarts what is not healthy must not do so in the middle of a recovery: that the server answers is
  // enough.
  app.get('/health', async () => {
    const engines = await health.check();
    return { status: engines.every(serves) ? 'ok' : 'degraded', version, engines };
  });

  app.get('/ready', async (_request, reply) => {
    const problem = activity.draining ? 'the server is shutting down' : await readiness.problem();
    if (problem === undefined) return { status: 'ready' };
    return reply.code(503).send({ status: 'not ready', problem });
  });
}

export function metricsRoute(app: FastifyInstance, { metrics }: ServerContext): void {
  app.get('/metrics', async (_request, reply) => {
    const text = await metrics.text();
    return reply.type(metrics.contentType).send(text);
  });
}
