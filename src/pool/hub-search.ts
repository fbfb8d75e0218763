// Finds models on the hub: repositories by words, and what of a repository can be pulled, with its size.

import { z } from 'zod';
import { findArchitecture } from '../model/architectures.ts';
import { choicesIn, type PullChoice } from './choose-files.ts';
import { fetchFromHub, type Hub, listHubFiles, refusalOf } from './hub.ts';
import { type ModelReference, PullError, referenceName } from './model-reference.ts';

export const hubFormats = ['gguf', 'safetensors'] as const;
export type HubFormat = (typeof hubFormats)[number];

export interface FoundModel {
  /** `owner/repo`. */
  readonly name: string;
  readonly parameters?: number;
  readonly architecture?: string;
  /** Whether the architecture is one of those served here; absent where the hub does not say which it is. */
  readonly supported?: boolean;
  /** In the last month. */
  readonly downloads?: number;
  readonly likes?: number;
  readonly changedSeconds?: number;
  /** Its terms must be accepted, and an access token be given. */
  readonly gated: boolean;
}

export interface PullableModel extends PullChoice {
  /** What `pull` takes. */
  readonly model: string;
}

const MOST_FOUND = 20;
/** A search that takes longer is of no use to a reader; a network that drops packets would be waited for by minutes. */
const LONGEST_MS = 15_000;

const expanded = ['downloads', 'likes', 'lastModified', 'gated', 'gguf', 'safetensors', 'config'];

/** A mirror may say less. */
const foundSchema = z.array(
  z.object({
    id: z.string(),
    downloads: z.number().optional(),
    likes: z.number().optional(),
    lastModified: z.string().optional(),
    gated: z.union([z.boolean(), z.string()]).optional(),
    gguf: z.object({ total: z.number().optional(), architecture: z.string().optional() }).nullish(),
    safetensors: z.object({ total: z.number().optional() }).nullish(),
    config: z.object({ model_type: z.string().optional() }).nullish(),
  }),
);

/** The most downloaded first. Throws PullError where the hub cannot be asked. */
export function searchHub(
  hub: Hub,
  { words, format }: { readonly words: string; readonly format: HubFormat },
  signal: AbortSignal,
): Promise<FoundModel[]> {
  const query = new URLSearchParams({
    search: words,
    filter: format,
    sort: 'downloads',
    direction: '-1',
    limit: String(MOST_FOUND),
  });
  for (const field of expanded) query.append('expand[]', field);
  return inTime(hub, signal, async (limited) => {
    const response = await fetchFromHub(hub, `${hub.url}/api/models?${query}`, { signal: limited });
    if (!response.ok) throw refusalOf(response.status, hub, 'a search');
    const found = foundSchema.safeParse(await response.json().catch(() => undefined));
    if (!found.success) throw new PullError(`${hub.url} answers a search with something else than models`);
    return found.data.map((model) => describe(model, format));
  });
}

/** The smallest first. Throws PullError where the hub cannot be asked, or has no such repository. */
export function pullableModels(
  hub: Hub,
  repository: Pick<ModelReference, 'owner' | 'repo'>,
  signal: AbortSignal,
): Promise<PullableModel[]> {
  const { owner, repo } = repository;
  return inTime(hub, signal, async (limited) => {
    const choices = choicesIn(await listHubFiles(hub, repository, limited));
    return choices.map((choice) => ({ ...choice, model: referenceName({ owner, repo, ...fileOf(choice) }) }));
  });
}

function fileOf({ file }: PullChoice): { file?: string } {
  return file === undefined ? {} : { file };
}

function describe(model: z.infer<typeof foundSchema>[number], format: HubFormat): FoundModel {
  const { id, downloads, likes, lastModified, gated = false, gguf, safetensors, config } = model;
  const isGguf = format === 'gguf';
  const architecture = isGguf ? gguf?.architecture : config?.model_type;
  const parameters = isGguf ? gguf?.total : safetensors?.total;
  const changedMs = Date.parse(lastModified ?? '');
  return {
    name: id,
    gated: gated !== false,
    ...(parameters === undefined ? {} : { parameters }),
    ...(architecture === undefined
      ? {}
      : {
          architecture,
          supported: findArchitecture(architecture, isGguf ? 'gguf' : 'hugging-face') !== undefined,
        }),
    ...(downloads === undefined ? {} : { downloads }),
    ...(likes === undefined ? {} : { likes }),
    ...(Number.isNaN(changedMs) ? {} : { changedSeconds: Math.floor(changedMs / 1000) }),
  };
}

async function inTime<Result>(
  { url }: Hub,
  signal: AbortSignal,
  work: (limited: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const limit = AbortSignal.timeout(LONGEST_MS);
  try {
    return await work(AbortSignal.any([signal, limit]));
  } catch (error) {
    if (!limit.aborted || signal.aborted) throw error;
    throw new PullError(`${url} did not answer within ${LONGEST_MS / 1000} s; check the network`);
  }
}
