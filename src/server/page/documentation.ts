// GET /openapi.json, and /docs, the page to read it.

import type { Route } from '../route.ts';
import { docsPage } from './docs-page.ts';
import { inlinePolicy, pageHeaders } from './page-headers.ts';

export function documentationRoutes(document: object): readonly Route[] {
  return [
    { method: 'GET', url: '/openapi.json', access: 'open', handler: async () => document },
    {
      method: 'GET',
      url: '/docs',
      access: 'open',
      handler: async (_request, reply) =>
        reply
          .type('text/html; charset=utf-8')
          .headers({ ...pageHeaders, 'content-security-policy': inlinePolicy })
          .send(docsPage),
    },
  ];
}
