// GET /openapi.json, and /docs, the page to read it.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../context.ts';
import { docsPage } from '../docs-page.ts';
import { openApiDocument } from '../openapi.ts';

export function documentationRoutes(app: FastifyInstance, { version }: ServerContext): void {
  const document = openApiDocument(version);
  app.get('/openapi.json', async () => document);
  app.get('/docs', async (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .header(
        'content-security-policy',
        "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'",
      )
      .send(docsPage),
  );
}
