// LoRA adapters on disk: a folder of PEFT or mlx-lm, or a GGUF file. They add `scale * B A` to a matrix W. Reads
// headers alone.

import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { unreadableFile } from './file-reader.ts';
import { openGguf } from './gguf.ts';
import type { GgufValue } from './gguf-metadata.ts';
import { type JsonObject, readJsonFile } from './json-file.ts';
import {
  type EmbeddingSides,
  isMlxAdapter,
  mlxPart,
  mlxSettings,
  type NamedPart,
  turnedWeights,
} from './mlx-adapter.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { floatWeights, openSafetensors, type Safetensors } from './safetensors.ts';
import { columnsOf, type TensorInfo, type WeightSource } from './weight-source.ts';

export interface AdapterPair {
  /** The model's tensor, in the adapter's naming. */
  readonly target: string;
  /** Names of the adapter's tensors: `[rank, inputs]` and `[outputs, rank]`, or one of each per expert. */
  readonly down: string;
  readonly up: string;
  readonly rank: number;
  readonly scale: number;
  /** DoRA: one value for each output. */
  readonly magnitude?: string;
  readonly embedding?: EmbeddingSides;
  /** PEFT saves the model's matrix with adapters of embeddings and heads. It is not read. */
  readonly base?: string;
}

export interface AdapterFiles {
  readonly format: 'gguf' | 'safetensors';
  readonly path: string;
  readonly pairs: readonly AdapterPair[];
  readonly weights: WeightSource;
}

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
const MLX_WEIGHTS = 'adapters.safetensors';
const MERGE =
  'Merge the adapter into its model (merge_and_unload of PEFT, mlx_lm.fuse), or train plain LoRA.';
const REMEDY = 'Give a LoRA adapter: a folder that PEFT or mlx-lm wrote, or a GGUF file of its conversion.';

/** Close `weights` when done. */
export function openAdapter(path: string): AdapterFiles {
  if (path.endsWith('.gguf')) return openGgufAdapter(path);
  return isFolder(path) ? openFolder(path) : openFile(dirname(path), path);
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    throw unreadableFile(path, error);
  }
}

function openFolder(folder: string): AdapterFiles {
  const path = [WEIGHTS, MLX_WEIGHTS].map((name) => join(folder, name)).find((one) => existsSync(one));
  if (path !== undefined) return openFile(folder, path);
  const pickled = existsSync(join(folder, 'adapter_model.bin'));
  throw new ModelFileError({
    file: folder,
    field: 'path',
    problem: pickled
      ? `holds adapter_model.bin but no ${WEIGHTS}`
      : `holds no ${WEIGHTS} and no ${MLX_WEIGHTS}`,
    remedy: pickled ? 'Save the adapter again with safe_serialization=True.' : REMEDY,
  });
}

function openFile(folder: string, path: string): AdapterFiles {
  const configPath = join(folder, CONFIG);
  const config = readJsonFile(configPath);
  const open = isMlxAdapter(config) ? openMlx : openPeft;
  const stored = openSafetensors(path, [path]);
  try {
    return { format: 'safetensors', path, ...open(path, stored, configPath, config) };
  } catch (error) {
    for (const file of stored.files) file.close();
    throw error;
  }
}

type Opened = Pick<AdapterFiles, 'pairs' | 'weights'>;

function openPeft(path: string, stored: Safetensors, configPath: string, config: JsonObject): Opened {
  refuseOtherKinds(configPath, config);
  const weights = floatWeights(stored);
  const scaleOf = peftScales(configPath, config);
  const pairs = pairUp(path, [...stored.entries.keys()], weights, peftPart, scaleOf);
  refuseOtherMagnitudes(path, pairs, config.use_dora === true);
  return { pairs, weights };
}

function openMlx(path: string, stored: Safetensors, configPath: string, config: JsonObject): Opened {
  const { scale, hasMagnitudes } = mlxSettings(configPath, config);
  const weights = turnedWeights(floatWeights(stored));
  const pairs = pairUp(path, [...stored.entries.keys()], weights, mlxPart, () => scale);
  refuseOtherMagnitudes(path, pairs, hasMagnitudes);
  return { pairs, weights };
}

/** DoRA has a magnitude for each matrix, LoRA none. */
function refuseOtherMagnitudes(path: string, pairs: readonly AdapterPair[], hasMagnitudes: boolean): void {
  const other = pairs.find(({ magnitude }) => (magnitude !== undefined) !== hasMagnitudes);
  if (other === undefined) return;
  const problem = hasMagnitudes ? 'has no magnitude beside it' : 'is a magnitude, which LoRA has not';
  throw fault(path, other.magnitude ?? other.down, `${problem}: ${CONFIG} says otherwise`);
}

/** Refuses what PEFT can train besides low-rank matrices. */
function refuseOtherKinds(file: string, config: JsonObject): void {
  const refuse = (field: string, problem: string) => {
    throw wholeFault(file, field, problem);
  };
  if (config.peft_type !== undefined && config.peft_type !== 'LORA')
    refuse('peft_type', `${JSON.stringify(config.peft_type)} is not LORA`);
  for (const field of ['fan_in_fan_out', 'use_qalora', 'lora_bias', 'alora_invocation_tokens']) {
    if (config[field] !== undefined && config[field] !== null && config[field] !== false)
      refuse(field, 'is not supported');
  }
  if (config.bias !== undefined && config.bias !== 'none') refuse('bias', 'trained biases are not supported');
  for (const field of [
    'modules_to_save',
    'trainable_token_indices',
    'layer_replication',
    'target_parameters',
  ]) {
    const value = config[field];
    if (value !== undefined && value !== null && Object.keys(value).length > 0)
      refuse(field, `${printable(JSON.stringify(value))} is not supported`);
  }
}

/** `alpha / rank`, or alpha over the root of the rank; patterns of modules may set alpha. */
function peftScales(file: string, config: JsonObject): (target: string, rank: number) => number {
  const alpha = positiveNumber(file, 'lora_alpha', config.lora_alpha);
  const own = Object.entries((config.alpha_pattern as JsonObject | null | undefined) ?? {}).map(
    ([pattern, value]) => ({
      pattern: modulePattern(file, pattern),
      alpha: positiveNumber(file, 'alpha_pattern', value),
    }),
  );
  return (target, rank) => {
    const module = target.replace(/\.weight$/, '');
    const chosen = own.find(({ pattern }) => pattern.test(module))?.alpha ?? alpha;
    return chosen / (config.use_rslora === true ? Math.sqrt(rank) : rank);
  };
}

/** PEFT matches the end of a module's path. */
function modulePattern(file: string, pattern: string): RegExp {
  try {
    return new RegExp(`^(.*\\.)?(${pattern})$`);
  } catch {
    throw fault(file, 'alpha_pattern', `${JSON.stringify(pattern)} is not a pattern`);
  }
}

function openGgufAdapter(path: string): AdapterFiles {
  const { metadata, weights } = openGguf(path);
  try {
    expect(path, metadata, 'general.type', 'adapter');
    expect(path, metadata, 'adapter.type', 'lora');
    const alpha = positiveNumber(path, 'adapter.lora.alpha', metadata.get('adapter.lora.alpha'));
    const names = [...weights.tensors.keys()];
    const pairs = pairUp(path, names, weights, ggufPart, (_, rank) => alpha / rank);
    return { format: 'gguf', path, pairs, weights };
  } catch (error) {
    weights.close();
    throw error;
  }
}

function expect(file: string, metadata: ReadonlyMap<string, GgufValue>, key: string, wanted: string): void {
  const value = metadata.get(key);
  if (value === wanted) return;
  throw fault(file, key, value === undefined ? 'is missing' : `is not ${JSON.stringify(wanted)}`);
}

const peftSides = {
  lora_A: 'down',
  lora_B: 'up',
  lora_embedding_A: 'down',
  lora_embedding_B: 'up',
  lora_magnitude_vector: 'magnitude',
  base_layer: 'base',
} as const;
const peftNames = new RegExp(`^base_model\\.model\\.(.+)\\.(${Object.keys(peftSides).join('|')})(?:\\.|$)`);

/** `base_model.model.` + the module + `.lora_A.weight`, in some files with the adapter's name within; not all end in `.weight`. */
function peftPart(name: string): NamedPart | undefined {
  const [start, module, side] = peftNames.exec(name) ?? [];
  if (start === undefined || !/^(?:(?:[^.]+\.)?weight|[^.]+)?$/.test(name.slice(start.length)))
    return undefined;
  const isEmbedding = side?.startsWith('lora_embedding') === true;
  return {
    target: `${module}.weight`,
    side: peftSides[side as keyof typeof peftSides],
    // A tied head is not affected.
    ...(isEmbedding ? { embedding: { byToken: false, tied: false } } : {}),
  };
}

function ggufPart(name: string): NamedPart | undefined {
  const found = /^(.+)\.lora_([ab])$/.exec(name);
  if (found === null) return undefined;
  return {
    target: found[1] as string,
    side: found[2] === 'a' ? 'down' : 'up',
    ...(found[1] === 'token_embd.weight' ? { embedding: { byToken: true, tied: false } } : {}),
  };
}

function pairUp(
  file: string,
  names: readonly string[],
  { tensors }: WeightSource,
  partOf: (name: string) => NamedPart | undefined,
  scaleOf: (target: string, rank: number) => number,
): AdapterPair[] {
  const sides = {
    down: new Map<string, string>(),
    up: new Map<string, string>(),
    magnitude: new Map<string, string>(),
    base: new Map<string, string>(),
  };
  const embeddings = new Map<string, EmbeddingSides>();
  for (const name of names) {
    const part = partOf(name);
    if (part === undefined) throw notLora(file, name);
    sides[part.side].set(part.target, name);
    if (part.embedding !== undefined) embeddings.set(part.target, part.embedding);
  }
  for (const [target, name] of [...sides.up, ...sides.magnitude, ...sides.base]) {
    if (!sides.down.has(target)) throw fault(file, name, 'its other half is missing');
  }
  if (sides.down.size === 0) throw fault(file, 'tensors', 'there are none');
  return [...sides.down].map(([target, down]) => {
    const up = sides.up.get(target);
    if (up === undefined) throw fault(file, down, 'its other half is missing');
    const [embedding, base] = [embeddings.get(target), sides.base.get(target)];
    const rank = rankOf(file, [tensors.get(down), down], [tensors.get(up), up], embedding?.byToken === true);
    const magnitude = sides.magnitude.get(target);
    if (magnitude !== undefined && embedding !== undefined)
      throw wholeFault(file, magnitude, 'is DoRA of embeddings, which is not supported');
    if (magnitude !== undefined && !tensors.has(magnitude))
      throw fault(file, magnitude, 'does not hold floats');
    return {
      target,
      down,
      up,
      rank,
      scale: scaleOf(target, rank),
      ...(magnitude === undefined ? {} : { magnitude }),
      ...(embedding === undefined ? {} : { embedding }),
      ...(base === undefined ? {} : { base }),
    };
  });
}

type MaybeTensor = readonly [tensor: TensorInfo | undefined, name: string];

function rankOf(file: string, downSide: MaybeTensor, upSide: MaybeTensor, byToken: boolean): number {
  for (const [tensor, name] of [downSide, upSide]) {
    if (tensor === undefined) throw fault(file, name, 'does not hold floats');
    if (tensor.shape.length !== 2 && tensor.shape.length !== 3)
      throw fault(file, name, `has the shape [${tensor.shape.join(', ')}], not that of a matrix`);
  }
  const [[down], [up, upName]] = [downSide, upSide];
  const [rank, experts] = [down?.shape.at(byToken ? -1 : -2), down?.shape.at(-3)];
  if (rank !== undefined && rank === columnsOf(up as TensorInfo) && experts === up?.shape.at(-3)) return rank;
  const shapes = `[${down?.shape.join(', ')}] and [${up?.shape.join(', ')}]`;
  throw fault(file, upName, `does not fit its other half: shapes ${shapes} share no rank`);
}

function positiveNumber(file: string, field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  const problem = value === undefined || value === null ? 'is missing' : 'must be a positive number';
  throw fault(file, field, problem);
}

/** Distinguishes whole matrices from unknown tensors. */
function notLora(file: string, name: string): ModelFileError {
  if (!/\.(?:weight|bias)$/.test(name)) return fault(file, name, 'is no part of a plain LoRA adapter');
  return wholeFault(file, name, 'is a whole tensor of a model, which adapters cannot replace');
}

function wholeFault(file: string, field: string, problem: string): ModelFileError {
  return new ModelFileError({ file, field, problem, remedy: MERGE });
}

function fault(file: string, field: string, problem: string): ModelFileError {
  return new ModelFileError({ file, field, problem, remedy: REMEDY });
}
