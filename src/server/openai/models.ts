// GET /v1/models and /v1/models/{id}.

import type { FastifyInstance } from 'fastify';
import type { ModelEntry } from '../../pool/model-pool.ts';
import { eitherError, modelInfo, modelPage, speaksAnthropic } from '../anthropic/models.ts';
import type { ServerContext } from '../context.ts';
import { samplingDefaults, type WireDefaults } from '../jobs/sampling-defaults.ts';
import { findEntry } from '../request/find-model.ts';

export function modelRoutes(app: FastifyInstance, { pool, settings }: ServerContext): void {
  const options = { config: eitherError };
  const described = (entry: ModelEntry) => {
    const model = pool.loaded().find(({ name }) => name === (entry.adapterOf ?? entry.name));
    return modelOf(entry, model && samplingDefaults(settings, model));
  };
  app.get('/v1/models', options, async (request) =>
    speaksAnthropic(request)
      ? modelPage(pool.list(), request.query)
      : { object: 'list', data: pool.list().map(described) },
  );
  // Names may have slashes in them.
  app.get<{ Params: { '*': string } }>('/v1/models/*', options, async (request) => {
    const entry = findEntry(pool, request.params['*']);
    return speaksAnthropic(request) ? modelInfo(entry) : described(entry);
  });
}

/** What its file says is known while it is loaded. */
function modelOf(entry: ModelEntry, defaults: WireDefaults | undefined): object {
  const { name, adapterOf, aliases, state, createdSeconds } = entry;
  return {
    id: name,
    object: 'model',
    created: createdSeconds,
    owned_by: 'chairlift',
    ...(adapterOf === undefined ? {} : { parent: adapterOf }),
    aliases,
    state,
    ...(defaults === undefined ? {} : { default_parameters: defaults }),
  };
}
