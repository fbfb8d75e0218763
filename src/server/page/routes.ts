// The page at /, its files under /assets, /whoami, /openapi.json, and /docs, the page to read it and to try it. Only /whoami needs
// a key.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { ANONYMOUS_KEY_ID } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import type { WhoAmI } from '../live/live-event.ts';
import { callerOf } from '../request/auth.ts';
import type { Route } from '../route.ts';
import { builtPage, formFor, isKnown, type PageFile, readPageFiles } from './page-files.ts';

const notBuilt = 'Chairlift serves, but its page is not built: run npm run setup, then start it again.\n';

const pages = [
  { url: '/', name: 'index.html' },
  { url: '/docs', name: 'docs.html' },
] as const;

export function pageRoutes({ pageFolder = builtPage }: ServerContext): readonly Route[] {
  const files = readPageFiles(pageFolder);
  const common = { method: 'GET', access: 'open', atBothAddresses: true } as const;
  return [
    ...pages.map(
      ({ url, name }): Route => ({
        ...common,
        url,
        handler: async (request, reply) => {
          const page = files.get(name);
          if (page !== undefined) return send(request, reply, page, 'no-cache');
          return reply.headers(pageHeaders).type('text/plain; charset=utf-8').send(notBuilt);
        },
      }),
    ),
    {
      ...common,
      url: '/assets/*',
      handler: async (request, reply) => {
        const { '*': name } = request.params as { readonly '*': string };
        const file = files.get(`assets/${name}`);
        // Browsers may keep the file for ever, because its name changes with its content.
        if (file !== undefined) return send(request, reply, file, 'public, max-age=31536000, immutable');
        throw new ApiError(404, 'the page has no such file', { code: 'unknown_url' });
      },
    },
  ];
}

function send(request: FastifyRequest, reply: FastifyReply, file: PageFile, caching: string): FastifyReply {
  const { encoding, bytes, etag } = formFor(file, request.headers['accept-encoding']);
  reply.headers({ ...pageHeaders, 'cache-control': caching, etag, vary: 'accept-encoding' });
  if (isKnown(etag, request.headers['if-none-match'])) return reply.code(304).send();
  reply.header('content-security-policy', filesPolicy).type(file.type);
  if (encoding !== undefined) reply.header('content-encoding', encoding);
  return reply.send(bytes);
}

/** The document takes as long to make as all else that a server does before it listens: it is made when it is first asked for. */
export function documentRoute(makeDocument: () => object): Route {
  let document: object | undefined;
  return {
    method: 'GET',
    url: '/openapi.json',
    access: 'open',
    atBothAddresses: true,
    handler: async () => {
      document ??= makeDocument();
      return document;
    },
  };
}

const pageHeaders = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
} as const;

const filesPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export function whoamiRoute(context: ServerContext): Route {
  return {
    method: 'GET',
    url: '/whoami',
    access: 'key',
    atBothAddresses: true,
    summary: 'What the server knows of who asks',
    handler: async (request) => whoAmI(context, request),
  };
}

function whoAmI(context: ServerContext, request: FastifyRequest): WhoAmI {
  const { version, settings, downloads, keyStore, fleet } = context;
  const { keyId, name, admin, tier } = callerOf(request);
  const anonymous = keyId === ANONYMOUS_KEY_ID;
  return {
    version,
    anonymous,
    admin,
    ...(name === undefined ? {} : { name }),
    tier,
    keysNeeded: !anonymous,
    logPrompts: settings.logPrompts,
    canPull: admin && downloads !== undefined,
    hasKeyStore: keyStore !== undefined,
    inFleet: fleet !== undefined,
    here: {
      clients: request.server.hasRoute({ method: 'POST', url: '/v1/chat/completions' }),
      admins: request.server.hasRoute({ method: 'GET', url: '/live' }),
    },
  };
}
