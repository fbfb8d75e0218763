// EAGLE-3: a head that drafts for a model whose files hold none. In place of the model's last state it reads the residual stream
// after three of its layers; its one layer reads embedding and state side by side; it may know a part of the vocabulary alone.

import { createHash } from 'node:crypto';
import { type Eagle3Files, eagle3Prefix } from '../weights/eagle3-files.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { joinedWeights, readFloats, type WeightSource } from '../weights/weight-source.ts';
import { checkTensors, expectedSizes } from './check-tensors.ts';
import { type Config, configError, fieldOf, isRecord, optionalFlag } from './config.ts';
import { withDefaults } from './hugging-face-config.ts';
import { defined, LayerBuilder, modelLeaves } from './layer-builder.ts';
import { activationOf, biasesOf } from './layer-config.ts';
import { branch } from './layer-shapes.ts';
import { attention } from './layers/attention.ts';
import { mlp } from './layers/mlp.ts';
import type { LinearSpec } from './leaves.ts';
import { ModelBuilder } from './model-builder.ts';
import { ropeOf } from './rope-parameters.ts';
import { modelSizes } from './sizes.ts';
import type { ModelSpec, MtpSpec } from './spec.ts';
import { isEncoder } from './spec-walk.ts';

interface SpecWithWeights {
  readonly spec: ModelSpec;
  readonly weights: WeightSource;
}

const names = {
  features: { hub: 'eagle3.fc' },
  embedding: { hub: 'eagle3.embed_tokens' },
  finalNorm: { hub: 'eagle3.norm' },
  output: { hub: 'eagle3.lm_head' },
};

/** The model with the head, which becomes its MTP head, and the weights of both. */
export function withEagle3({ spec: model, weights }: SpecWithWeights, head: Eagle3Files): SpecWithWeights {
  const config = configOf(head, model);
  refuseModel(model, config);
  const sizes = modelSizes(config, model.contextLength);
  refuseSizes(model, config);
  const { path, directory } = head;
  const opened = {
    format: 'safetensors',
    path,
    directory,
    config: head.config,
    weights: head.weights,
  } as const;
  const builder = new ModelBuilder(
    { architecture: 'eagle3', config, sizes, naming: 'hugging-face', opened },
    { names: { hub: { layers: 'eagle3.layers' } } },
  );
  builder.caches.push(...model.caches);
  builder.ropes.push(...model.ropes);
  const mtp = headSpec(builder, model, head);
  const { mtpProblem: _, ...alone } = model;
  const spec = { ...alone, ropes: builder.ropes, caches: builder.caches, mtp };
  const all = joinedWeights(weights, head.weights);
  checkTensors(spec, all, path);
  refuseUnknown(spec, head);
  return { spec, weights: all };
}

/** Something that is left out would only show in drafts that are accepted less often. */
function refuseUnknown(spec: ModelSpec, { path, weights }: Eagle3Files): void {
  const used = expectedSizes(spec);
  const unknown = [...weights.tensors.keys()].find((name) => !used.has(name) && !name.endsWith('.inv_freq'));
  if (unknown === undefined) return;
  throw new ModelFileError({
    file: path,
    field: unknown.slice(eagle3Prefix.length),
    problem: 'is a tensor that no known form of EAGLE-3 heads has',
    remedy: 'Serve the model without the head, or give a draft model in its place.',
  });
}

function headSpec(builder: ModelBuilder, model: ModelSpec, head: Eagle3Files): MtpSpec {
  const { config, sizes, opened } = builder.source;
  const { hiddenSize } = sizes;
  const rope = builder.rope(ropeOf(config, sizes));
  const layer = new LayerBuilder(builder, 0);
  const biases = biasesOf(config);
  const attends = attention(layer, {
    rope,
    skipsFirst: true,
    inputSize: 2 * hiddenSize,
    ...biases.attention,
  });
  const feedForward = mlp(layer, { activation: activationOf(config), ...biases.mlp });
  const leaves = modelLeaves(builder, names);
  const after = layersRead(config, model);
  const features = {
    rows: hiddenSize,
    columns: after.length * hiddenSize,
    bias: opened.weights.tensors.has(`${eagle3Prefix}fc.bias`),
  };
  const tokens = tokensOf(head, config, model);
  const rows = { rows: tokens?.length ?? model.vocabSize, columns: hiddenSize };
  const embedding = leaves.names.has('embedding')
    ? leaves.table('embedding', model.vocabSize, hiddenSize)
    : undefined;
  const tied: LinearSpec | undefined =
    embedding && optionalFlag(config, 'tie_word_embeddings')
      ? {
          leaf: 'linear',
          weight: { tensor: embedding.tensor, firstRow: 0, rows: rows.rows },
          columns: hiddenSize,
        }
      : undefined;
  const stateNorm = layer.leaves({ state: { hub: 'hidden_norm' } }).norm('state', hiddenSize);
  return defined({
    normEpsilon: sizes.normEpsilon,
    embedding,
    embeddingNorm: layer.norm('attentionNorm'),
    stateNorm,
    features: { after, projection: leaves.linear('features', features) },
    beforeNorm: true,
    addsToNormed: optionalFlag(config, 'norm_before_residual') || undefined,
    layer: { branches: [branch(attends, {}), branch(feedForward, { input: layer.norm('ffnNorm') })] },
    finalNorm: leaves.norm('finalNorm', hiddenSize),
    output: leaves.names.has('output') ? leaves.linear('output', rows) : tied,
    tokens,
    identity: identityOf(head, [stateNorm.weight, `${eagle3Prefix}norm.weight`].flat()),
  });
}

/** Speculators keep what the layer is in an object of its own. */
function configOf({ path, config }: Eagle3Files, model: ModelSpec): Config {
  const inner = isRecord(config.transformer_layer_config) ? config.transformer_layer_config : {};
  const spellings = Object.fromEntries(
    Object.keys(inner).map((field) => [field, `transformer_layer_config.${field}`]),
  );
  const fields = { ...inner, ...config };
  const defaults = { rms_norm_eps: 1e-6, max_position_embeddings: model.contextLength, num_hidden_layers: 1 };
  return withDefaults({ file: path, fields, spellings }, defaults);
}

/** Models whose embeddings or logits are more than a table and a map: heads are made for none. */
function refuseModel(model: ModelSpec, config: Config): void {
  const { altUp, perLayerInputs, positions, embeddingScale, logitScale, logitSoftcap, headless } = model;
  const isUsual =
    (altUp ?? perLayerInputs ?? positions ?? logitScale ?? logitSoftcap ?? headless) === undefined &&
    embeddingScale === 1 &&
    !isEncoder(model);
  if (isUsual) return;
  throw configError(
    config,
    'architectures',
    `is an EAGLE-3 head, which cannot draft for a model of the architecture ${model.architecture}`,
    'Serve the model without it, or give a draft model in its place.',
  );
}

const OTHER_MODEL = 'The head was made for another model: give the one that was made for this one.';

function refuseSizes({ hiddenSize, vocabSize }: ModelSpec, config: Config): void {
  for (const [field, wanted] of [
    ['num_hidden_layers', 1],
    ['hidden_size', hiddenSize],
    ['target_hidden_size', hiddenSize],
    ['vocab_size', vocabSize],
  ] as const) {
    const found = fieldOf(config, field);
    if (found === undefined || found === wanted) continue;
    throw configError(config, field, `is ${JSON.stringify(found)}, not ${wanted}`, OTHER_MODEL);
  }
}

/**
 * After how many layers the stream is read: 2, half of them and all but 3, unless the file says it. Within `eagle_config` it names
 * layers by their index, where speculators keep it by how many come before.
 */
function layersRead(config: Config, { layers: { length } }: ModelSpec): readonly number[] {
  const field = 'eagle_aux_hidden_state_layer_ids';
  const { eagle_config: inner } = config.fields;
  const [given, shift] =
    fieldOf(config, field) !== undefined
      ? [fieldOf(config, field), 0]
      : [isRecord(inner) ? (inner[field] ?? undefined) : undefined, 1];
  if (given === undefined) return usualLayers(config, length);
  const after = Array.isArray(given) ? given.map((one) => Number(one) + shift) : [];
  const isSound = after.length > 0 && after.every((one) => Number.isInteger(one) && one >= 0 && one < length);
  if (isSound) return after;
  throw configError(
    config,
    field,
    `is ${JSON.stringify(given)}, of a model of ${length} layers`,
    OTHER_MODEL,
  );
}

function usualLayers(config: Config, length: number): readonly number[] {
  if (length > 3) return [2, Math.floor(length / 2), length - 3];
  throw configError(config, 'architectures', `an EAGLE-3 head reads more than ${length} layers`, OTHER_MODEL);
}

function tokensOf(
  { tokenOffsets, weights }: Eagle3Files,
  config: Config,
  { vocabSize }: ModelSpec,
): readonly number[] | undefined {
  const rows = weights.tensors.get(`${eagle3Prefix}lm_head.weight`)?.shape[0] ?? vocabSize;
  if (tokenOffsets === undefined && rows === vocabSize) return undefined;
  const tokens = tokenOffsets?.map((offset, row) => row + offset) ?? [];
  const isSound = tokens.length === rows && tokens.every((token) => token >= 0 && token < vocabSize);
  if (isSound) return tokens;
  const problem = `does not name a token of the model for each of ${rows} rows of the head's output`;
  throw configError(config, 'd2t', problem, OTHER_MODEL);
}

/** Heads of one model differ in their norms. */
function identityOf({ config, weights }: Eagle3Files, norms: readonly (string | undefined)[]): string {
  const hash = createHash('sha256').update(JSON.stringify(config));
  for (const name of norms) {
    if (name !== undefined && weights.tensors.has(name)) hash.update(readFloats(weights, name));
  }
  return `eagle3 ${hash.digest('hex').slice(0, 16)}`;
}
