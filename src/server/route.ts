// A route as one value: where it is, who may use it, what it takes and answers, and its handler. Fastify's routes and the
// OpenAPI document are both made from it.

import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ServerContext } from './context.ts';
import { shuttingDown } from './http/errors.ts';
import { endWithAuthority, identify, requireAdmin } from './request/auth.ts';
import { imageBodyLimit } from './settings.ts';

const PREFIX = '/v1';

/**
 * `open`: anyone. `key`: a live key, where keys are needed. `admin`: an admin key; the response ends when the key loses that
 * right. `scrape`: anyone, or an admin key where the settings protect metrics.
 */
type Access = 'open' | 'key' | 'admin' | 'scrape';

export interface Route {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  /** As Fastify writes it, such as `/v1/files/:id`; `/v1/models/*` because names of models contain slashes. */
  readonly url: string;
  readonly access: Access;
  /** The path without /v1 is another route. */
  readonly onlyPrefixed?: true;
  /** Where admins have an address of their own, this route is at both addresses. */
  readonly atBothAddresses?: boolean;
  readonly summary?: string;
  readonly description?: string;
  readonly body?: z.ZodType;
  readonly bodyType?: string;
  readonly answer?: z.ZodType;
  readonly chunk?: z.ZodType;
  readonly chunkType?: string;
  readonly error?: z.ZodType;
  readonly mediaType?: string;
  readonly config?: FastifyContextConfig;
  /** Its bodies have room for images. */
  readonly takesImages?: true;
  readonly explainError?: (error: unknown) => unknown;
  readonly exposeHeadRoute?: boolean;
  handler(request: FastifyRequest, reply: FastifyReply): unknown;
}

export function registerRoutes(app: FastifyInstance, context: ServerContext, routes: readonly Route[]): void {
  for (const route of routes) {
    const { method, config, handler, explainError, exposeHeadRoute, takesImages } = route;
    for (const url of urlsOf(route)) {
      app.route({
        method,
        url,
        handler,
        onRequest: accessHook(route, context),
        ...(takesImages === true ? { bodyLimit: imageBodyLimit(context.settings) } : {}),
        ...(config === undefined ? {} : { config }),
        ...(exposeHeadRoute === undefined ? {} : { exposeHeadRoute }),
        ...(explainError === undefined ? {} : { errorHandler: rethrow(explainError) }),
      });
    }
  }
}

export function clientRoutes(routes: readonly Route[]): Route[] {
  return routes.filter(({ access }) => access === 'open' || access === 'key');
}

export function adminOnlyRoutes(routes: readonly Route[]): Route[] {
  return routes.filter(
    ({ access, atBothAddresses }) => atBothAddresses === true || access === 'admin' || access === 'scrape',
  );
}

export function idOf({ params }: FastifyRequest): string {
  return (params as { readonly id: string }).id;
}

/** Many clients are given a base address that ends before /v1. */
function urlsOf({ url, access, onlyPrefixed }: Route): string[] {
  const isBoth = access !== 'open' && url.startsWith(`${PREFIX}/`) && onlyPrefixed !== true;
  return isBoth ? [url, url.slice(PREFIX.length)] : [url];
}

function accessHook({ access, atBothAddresses }: Route, context: ServerContext) {
  const { activity, keys, settings } = context;
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    switch (access) {
      case 'open':
        return;
      case 'scrape':
        if (settings.protectMetrics) requireAdmin(await identify(request, keys, settings.allowAnonymous));
        return;
      case 'key':
        await authenticate(context, request);
        if (atBothAddresses !== true) activity.awaitSent(reply.raw);
        return;
      case 'admin':
        requireAdmin(await authenticate(context, request));
        endWithAuthority(context, request, reply);
    }
  };
}

async function authenticate({ activity, keys, settings }: ServerContext, request: FastifyRequest) {
  if (activity.draining) throw shuttingDown();
  const caller = await identify(request, keys, settings.allowAnonymous);
  request.caller = caller;
  return caller;
}

/** An error that a route's error handler throws goes to the server's. */
function rethrow(explainError: (error: unknown) => unknown) {
  return (error: unknown): never => {
    throw explainError(error);
  };
}
