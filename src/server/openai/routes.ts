// POST /v1/chat/completions and /v1/completions; the same under /v1/batch, at LOW priority. And /infill, which editors call.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../context.ts';
import { chatProtocol, infillProtocol, textProtocol } from '../jobs/protocol.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';

export function completionRoutes(app: FastifyInstance, context: ServerContext): void {
  for (const [prefix, forceLow] of [
    ['/v1', false],
    ['/v1/batch', true],
  ] as const) {
    app.post(`${prefix}/chat/completions`, (request, reply) =>
      serveCompletion(context, chatProtocol, request, reply, { forceLow }),
    );
    app.post(`${prefix}/completions`, (request, reply) =>
      serveCompletion(context, textProtocol, request, reply, { forceLow }),
    );
  }
  app.post('/infill', (request, reply) =>
    serveCompletion(context, infillProtocol, request, reply, { forceLow: false }),
  );
}
