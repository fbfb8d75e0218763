// GET /v1/models and /v1/models/{id}.

import type { FastifyInstance } from 'fastify';
import type { ModelEntry } from '../../pool/model-pool.ts';
import { eitherError, modelInfo, modelPage, speaksAnthropic } from '../anthropic/models.ts';
import type { ServerContext } from '../context.ts';
import { findEntry } from '../models.ts';

export function modelRoutes(app: FastifyInstance, { pool }: ServerContext): void {
  const options = { config: eitherError };
  app.get('/v1/models', options, async (request) =>
    speaksAnthropic(request)
      ? modelPage(pool.list(), request.query)
      : { object: 'list', data: pool.list().map(modelOf) },
  );
  // Names may have slashes in them.
  app.get<{ Params: { '*': string } }>('/v1/models/*', options, async (request) => {
    const entry = findEntry(pool, request.params['*']);
    return speaksAnthropic(request) ? modelInfo(entry) : modelOf(entry);
  });
}

function modelOf({ name, aliases, state, createdSeconds }: ModelEntry): object {
  return { id: name, object: 'model', created: createdSeconds, owned_by: 'chairlift', aliases, state };
}
