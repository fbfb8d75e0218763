// GET /openapi.json, and /docs, the page to read it.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../context.ts';
import { openApiDocument } from '../openapi.ts';
import { docsPage } from './docs-page.ts';
import { inlinePolicy, pageHeaders } from './page-headers.ts';

export function documentationRoutes(app: FastifyInstance, { version }: ServerContext): void {
  const document = openApiDocument(version);
  app.get('/openapi.json', async () => document);
  app.get('/docs', async (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .headers({ ...pageHeaders, 'content-security-policy': inlinePolicy })
      .send(docsPage),
  );
}
