// GET /v1/models and /v1/models/{id}.

import type { ModelEntry, ModelState } from '../../pool/model-pool.ts';
import { eitherError, modelInfo, modelPage, speaksAnthropic } from '../anthropic/models.ts';
import type { ServerContext } from '../context.ts';
import { findEntry } from '../request/find-model.ts';
import type { Route } from '../route.ts';
import { modelListSchema, modelSchema } from './schemas/answers.ts';
import { samplingDefaults, type WireDefaults } from './schemas/sampling.ts';

export function modelRoutes({ pool, settings }: ServerContext): readonly Route[] {
  const described = (entry: ModelEntry) => {
    const model = pool.loaded().find(({ name }) => name === (entry.adapterOf ?? entry.name));
    return modelOf(entry, model && samplingDefaults(settings, model));
  };
  return [
    {
      method: 'GET',
      url: '/v1/models',
      access: 'key',
      summary: 'List the models',
      description: 'Where the header anthropic-version is given, as Anthropic lists them.',
      answer: modelListSchema,
      config: eitherError,
      handler: async (request) =>
        speaksAnthropic(request)
          ? modelPage(pool.list(), request.query)
          : { object: 'list', data: pool.list().map(described) },
    },
    {
      method: 'GET',
      url: '/v1/models/*',
      access: 'key',
      summary: 'One model',
      answer: modelSchema,
      config: eitherError,
      handler: async (request) => {
        const entry = findEntry(pool, (request.params as { readonly '*': string })['*']);
        return speaksAnthropic(request) ? modelInfo(entry) : described(entry);
      },
    },
  ];
}

/** What llama-server's router calls them. */
const routerStates: Readonly<Record<ModelState, string>> = {
  unloaded: 'unloaded',
  failed: 'unloaded',
  away: 'unloaded',
  waiting: 'loading',
  loading: 'loading',
  loaded: 'loaded',
};

/** `defaults`: known only while the model is loaded. */
function modelOf(entry: ModelEntry, defaults: WireDefaults | undefined): object {
  const { name, adapterOf, aliases, state, createdSeconds, upstream, headless, sees } = entry;
  return {
    id: name,
    object: 'model',
    created: createdSeconds,
    owned_by: upstream ?? 'chairlift',
    ...(upstream === undefined ? {} : { upstream }),
    ...(adapterOf === undefined ? {} : { parent: adapterOf }),
    aliases,
    state,
    ...(headless ? { generates: false } : {}),
    ...(upstream === undefined ? { modalities: sees ? ['text', 'image'] : ['text'] } : {}),
    status: { value: routerStates[state] },
    ...(defaults === undefined ? {} : { default_parameters: defaults }),
  };
}
