// GET /health, /ready and /metrics: free of anything about clients.

import type { FastifyReply } from 'fastify';
import type { ServerContext } from '../context.ts';
import type { Route } from '../route.ts';
import { serves } from './health.ts';

export function statusRoutes(context: ServerContext): readonly Route[] {
  return [
    {
      method: 'GET',
      url: '/health',
      access: 'open',
      atBothAddresses: true,
      summary: 'That the server lives, and how its engines are',
      handler: () => health(context),
    },
    {
      method: 'GET',
      url: '/v1/health',
      access: 'open',
      summary: 'The same as /health, as llama-server has it',
      handler: () => health(context),
    },
    {
      method: 'GET',
      url: '/ready',
      access: 'open',
      atBothAddresses: true,
      summary: 'Whether the default model answers',
      handler: (_request, reply) => ready(context, reply),
    },
    {
      method: 'GET',
      url: '/metrics',
      access: 'scrape',
      summary: 'Numbers for Prometheus',
      mediaType: 'text/plain',
      handler: (_request, reply) => scrape(context, reply),
    },
  ];
}

/**
 * The status is 200 even where an engine is not healthy: an orchestrator that restarts an unhealthy server must not do so in
 * the middle of an engine's recovery.
 */
async function health({ health: check, version }: ServerContext): Promise<object> {
  const engines = await check.check();
  return { status: engines.every(serves) ? 'ok' : 'degraded', version, engines };
}

async function ready({ activity, readiness }: ServerContext, reply: FastifyReply): Promise<object> {
  const problem = activity.draining ? 'the server is shutting down' : await readiness.problem();
  if (problem === undefined) return { status: 'ready' };
  return reply.code(503).send({ status: 'not ready', problem });
}

async function scrape({ metrics }: ServerContext, reply: FastifyReply): Promise<FastifyReply> {
  const text = await metrics.text();
  return reply.type(metrics.contentType).send(text);
}
