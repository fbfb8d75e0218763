// GET /health, /ready and /metrics: open to all who reach the port, and free of anything about clients.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../context.ts';

export function statusRoutes(app: FastifyInstance, context: ServerContext): void {
  const { activity, health, metrics, pool, version } = context;

  app.get('/health', async (_request, reply) => {
    const { ok, engines } = await health.check();
    return reply.code(ok ? 200 : 503).send({ status: ok ? 'ok' : 'failing', version, engines });
  });

  app.get('/ready', async (_request, reply) => {
    const problem = activity.draining ? 'the server is shutting down' : unready();
    if (problem === undefined) return { status: 'ready' };
    return reply.code(503).send({ status: 'not ready', problem });
  });

  app.get('/metrics', async (_request, reply) => {
    const text = await metrics.text();
    return reply.type(metrics.contentType).send(text);
  });

  /** Ready with a loaded model, or with one that can be loaded when it is asked for. */
  function unready(): string | undefined {
    const states = pool.list().map(({ state }) => state);
    if (states.includes('loaded')) return undefined;
    if (states.includes('loading')) return 'the first model is still loading';
    return states.includes('unloaded') ? undefined : 'there is no model that can be served';
  }
}
