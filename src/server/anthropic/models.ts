// Models as Anthropic lists them, for clients that send the header anthropic-version.

import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ModelEntry } from '../../pool/model-pool.ts';
import { type ApiError, badRequest } from '../http/errors.ts';
import { parseBody, rulesFor } from '../http/parse-body.ts';
import { anthropicError } from './errors.ts';

export function speaksAnthropic({ headers }: FastifyRequest): boolean {
  return headers['anthropic-version'] !== undefined;
}

export const eitherError = {
  errorBody: (error: ApiError, request: FastifyRequest) =>
    speaksAnthropic(request) ? anthropicError(error, request) : error.body(),
  idHeader: 'request-id',
};

const pageSchema = z.object({
  limit: z.coerce.number().int().min(1).max(1000).optional(),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
});

export function modelInfo({ name, createdSeconds }: ModelEntry): object {
  return {
    type: 'model',
    id: name,
    display_name: name,
    created_at: new Date(createdSeconds * 1000).toISOString(),
    lifecycle: 'active',
  };
}

export function modelPage(entries: readonly ModelEntry[], query: unknown): object {
  const { body: page } = parseBody(rulesFor(pageSchema), query);
  const { limit = entries.length, before_id: before } = page;
  const at = (parameter: 'after_id' | 'before_id', otherwise: number) => {
    const found = entries.findIndex(({ name }) => name === page[parameter]);
    if (page[parameter] === undefined) return otherwise;
    if (found === -1) throw badRequest(parameter, 'there is no model of this name');
    return found;
  };
  const rest = entries.slice(at('after_id', -1) + 1, at('before_id', entries.length));
  // With before_id, a page holds the entries just before it.
  const shown = before === undefined ? rest.slice(0, limit) : rest.slice(-limit);
  return {
    data: shown.map(modelInfo),
    has_more: shown.length < rest.length,
    first_id: shown[0]?.name ?? null,
    last_id: shown.at(-1)?.name ?? null,
  };
}
