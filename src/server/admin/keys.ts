// /admin/keys: lists, makes and revokes keys.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type KeyRecord, TIERS } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { readExactBody, rulesFor } from '../http/parse-body.ts';
import { idOf, type Route } from '../route.ts';

const limit = z.int().optional();

const newKeySchema = z.object({
  name: z.string(),
  tier: z.enum(TIERS).optional(),
  admin: z.boolean().optional(),
  requests_per_minute: limit,
  tokens_per_minute: limit,
  max_concurrent: limit,
  daily_tokens: limit,
  kv_share: z.number().optional(),
});

type Store = NonNullable<ServerContext['keyStore']>;

export function keyRoutes({ keyStore, keys }: ServerContext): readonly Route[] {
  const store = () => {
    if (keyStore !== undefined) return keyStore;
    throw new ApiError(501, 'this server keeps no keys', { code: 'no_key_store' });
  };
  return [
    {
      method: 'GET',
      url: '/admin/keys',
      access: 'admin',
      summary: 'List the keys',
      handler: async () => ({ object: 'list', data: (await store().list()).map(keyObject) }),
    },
    {
      method: 'POST',
      url: '/admin/keys',
      access: 'admin',
      summary: 'Make a key; it is shown this once',
      body: newKeySchema,
      handler: (request, reply) => create(store, request, reply),
    },
    {
      method: 'DELETE',
      url: '/admin/keys/:id',
      access: 'admin',
      summary: 'Revoke a key, by name or id',
      handler: async (request) => {
        const id = idOf(request);
        const record = await store().revoke(id, Date.now());
        if (record !== undefined) {
          // What is kept of its blocks is deleted once the keys are read again.
          await keys?.status(Date.now());
          return keyObject(record);
        }
        throw new ApiError(404, `there is no live key '${id}'`, { code: 'key_not_found' });
      },
    },
  ];
}

async function create(
  store: () => Store,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const body = readExactBody(rulesFor(newKeySchema), request);
  const limits = {
    requestsPerMinute: body.requests_per_minute,
    tokensPerMinute: body.tokens_per_minute,
    maxConcurrent: body.max_concurrent,
    dailyTokens: body.daily_tokens,
    kvShare: body.kv_share,
  };
  const { name, tier = 'normal', admin = false } = body;
  const result = await store().createKey({ name, tier, admin, limits }, Date.now());
  if (result.ok) return reply.code(201).send({ ...keyObject(result.record), key: result.key });
  const isInvalid = result.problem === 'invalid';
  const code = isInvalid ? 'invalid_value' : 'name_taken';
  throw new ApiError(isInvalid ? 400 : 409, result.message, { code });
}

function keyObject({ id, name, prefix, tier, admin, limits, createdMs, revokedMs }: KeyRecord): object {
  return {
    id,
    object: 'key',
    name,
    prefix,
    tier,
    admin,
    requests_per_minute: limits.requestsPerMinute ?? null,
    tokens_per_minute: limits.tokensPerMinute ?? null,
    max_concurrent: limits.maxConcurrent ?? null,
    daily_tokens: limits.dailyTokens ?? null,
    kv_share: limits.kvShare ?? null,
    created: Math.floor(createdMs / 1000),
    revoked: revokedMs === undefined ? null : Math.floor(revokedMs / 1000),
  };
}
