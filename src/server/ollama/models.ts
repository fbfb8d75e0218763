// /api/tags, /api/ps and /api/show: what models there are, which are loaded, and what one is.

import { createHash } from 'node:crypto';
import { roomOf } from '../../generation/context-room.ts';
import { type LocalModel, openLocalModel } from '../../pool/local-model.ts';
import { contentsOf, type ModelCard, type ModelCards } from '../../pool/model-card.ts';
import type { ModelEntry } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import type { CreatedModel } from './created-models.ts';
import type { resolveModel } from './names.ts';
import { timeText } from './shape.ts';

/** Ollama gives a year in the far future for a model that is never unloaded. */
const FOR_EVER_MS = Date.UTC(2300, 0);

export async function listModels(context: ServerContext, cards: ModelCards): Promise<object> {
  const { pool, createdModels } = context;
  const models: object[] = [];
  for (const entry of pool.list()) {
    if (entry.upstream !== undefined) models.push(remoteModel(context, entry));
    const card = await cardOrNothing(cards, entry);
    if (card === undefined) continue;
    models.push({
      ...identity(entry, card),
      modified_at: timeText(card.changedSeconds * 1000),
      size: card.sizeBytes,
      details: detailsOf(card),
    });
    for (const { name, createdMs } of createdModels.list().filter(({ from }) => from === entry.name)) {
      models.push({
        ...identity({ ...entry, name }, card),
        modified_at: timeText(createdMs),
        size: card.sizeBytes,
        details: { ...detailsOf(card), parent_model: entry.name },
      });
    }
  }
  return { models };
}

export async function runningModels({ pool }: ServerContext, cards: ModelCards): Promise<object> {
  const models: object[] = [];
  for (const entry of pool
    .list()
    .filter(({ state, adapterOf }) => state === 'loaded' && adapterOf === undefined)) {
    const card = await cardOrNothing(cards, entry);
    if (card === undefined) continue;
    const size = entry.memoryBytes ?? card.sizeBytes;
    const served = pool.loaded().find(({ name }) => name === (entry.adapterOf ?? entry.name));
    models.push({
      ...identity(entry, card),
      size,
      details: detailsOf(card),
      expires_at: timeText(entry.expiresMs ?? FOR_EVER_MS),
      size_vram: /^(cuda|webgpu)/.test(entry.computedBy ?? '') ? size : 0,
      ...(served === undefined ? {} : { context_length: roomOf(served) }),
    });
  }
  return { models };
}

/** Of a model that an upstream has: Ollama lists those of its cloud so. */
function remoteModel({ upstreams }: ServerContext, { name, upstream, createdSeconds }: ModelEntry): object {
  return {
    name,
    model: name,
    remote_model: upstreams?.find(name)?.remoteName,
    remote_host: upstream,
    modified_at: timeText(createdSeconds * 1000),
    size: 0,
    digest: createHash('sha256')
      .update(JSON.stringify([name, upstream]))
      .digest('hex'),
    details: noDetails,
  };
}

const noDetails = {
  parent_model: '',
  format: '',
  family: '',
  families: null,
  parameter_size: '',
  quantization_level: '',
};

export async function showModel(
  context: ServerContext,
  { entry, created }: ReturnType<typeof resolveModel>,
  cards: ModelCards,
  verbose = false,
): Promise<object> {
  const { pool } = context;
  if (entry.upstream !== undefined) {
    return {
      ...modelfileOf(entry, created),
      ...remoteModel(context, entry),
      template: '',
      model_info: {},
      capabilities: ['completion', 'tools'],
    };
  }
  const card = await cards.read(entry.path);
  const { lists = {}, tensors } = verbose ? contentsOf(entry.path) : {};
  const served = pool.loaded().find(({ name }) => name === (entry.adapterOf ?? entry.name));
  const model = served ?? opened(entry);
  return {
    ...modelfileOf(entry, created),
    template: created?.template ?? model.template?.source ?? '',
    details: { ...detailsOf(card), parent_model: created?.from ?? '' },
    model_info: { ...card.metadata, ...lists },
    ...(tensors === undefined ? {} : { tensors }),
    capabilities: capabilitiesOf(model),
    modified_at: timeText(card.changedSeconds * 1000),
  };
}

function modelfileOf({ name }: ModelEntry, created: CreatedModel | undefined): object {
  if (created === undefined) {
    return { modelfile: `# A model of this server; it has no Modelfile.\nFROM ${name}\n`, parameters: '' };
  }
  const { from, system, template, messages = [], parameters = {}, license = [] } = created;
  const set = Object.entries(parameters).flatMap(([key, value]) =>
    [value].flat().map((one) => `${key} ${typeof one === 'string' ? JSON.stringify(one) : String(one)}`),
  );
  const quoted = (text: string) => `"""${text}"""`;
  const lines = [
    `FROM ${from}`,
    ...(template === undefined ? [] : [`TEMPLATE ${quoted(template)}`]),
    ...(system === undefined ? [] : [`SYSTEM ${quoted(system)}`]),
    ...set.map((line) => `PARAMETER ${line}`),
    ...messages.map(({ role, content }) => `MESSAGE ${role} ${quoted(content)}`),
    ...license.map((text) => `LICENSE ${quoted(text)}`),
  ];
  return {
    modelfile: `${lines.join('\n')}\n`,
    parameters: set.join('\n'),
    ...(system === undefined ? {} : { system }),
    ...(messages.length === 0 ? {} : { messages }),
    ...(license.length === 0 ? {} : { license: license.join('\n') }),
  };
}

async function cardOrNothing(cards: ModelCards, { path }: ModelEntry): Promise<ModelCard | undefined> {
  try {
    return await cards.read(path);
  } catch {
    return undefined;
  }
}

function opened({ path, sees }: ModelEntry): LocalModel {
  const local = openLocalModel(path, { images: sees === true ? 'if-possible' : false });
  local.close();
  return local;
}

type Capable = Pick<ServedModel, 'spec' | 'template' | 'pooling' | 'fillInMiddle'>;

/**
 * What the model was made for, though more is possible: tools can be described to any model, and any causal model has
 * vectors. A model without a head has nothing but vectors.
 */
export function capabilitiesOf({ spec, template, pooling, fillInMiddle }: Capable): string[] {
  const embeds = pooling.possible && pooling.declared;
  if (spec.headless === true) return pooling.possible ? ['embedding'] : [];
  const { rendersTools, format } = template?.format ?? {};
  return [
    'completion',
    ...(embeds ? ['embedding'] : []),
    ...(spec.vision === undefined ? [] : ['vision']),
    ...(rendersTools ? ['tools'] : []),
    ...(fillInMiddle === undefined ? [] : ['insert']),
    ...(format?.reasons ? ['thinking'] : []),
  ];
}

/** Contents are not hashed, which would take minutes; the digest changes when files do. */
function identity({ name }: ModelEntry, { sizeBytes, changedSeconds }: ModelCard): object {
  const text = JSON.stringify([name, sizeBytes, changedSeconds]);
  return { name, model: name, digest: createHash('sha256').update(text).digest('hex') };
}

function detailsOf({ format, architecture, parameters, quantization }: ModelCard): object {
  return {
    parent_model: '',
    format,
    family: architecture,
    families: [architecture],
    parameter_size: countText(parameters),
    quantization_level: quantization,
  };
}

export function countText(count: number): string {
  const [unit, sign] = count >= 1e9 ? [1e9, 'B'] : count >= 1e6 ? [1e6, 'M'] : [1e3, 'K'];
  return `${(count / unit).toFixed(1)}${sign}`;
}
