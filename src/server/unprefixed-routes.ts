// Every route under /v1 is there without it as well: many clients are given an address that ends before it.

import type { FastifyInstance } from 'fastify';

const PREFIX = '/v1';

/** For the routes that are added after this. */
export function addUnprefixedRoutes(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    // HEAD comes with GET by itself.
    if (!route.url.startsWith(`${PREFIX}/`) || route.method === 'HEAD') return;
    app.route({ ...route, url: route.url.slice(PREFIX.length) });
  });
}
