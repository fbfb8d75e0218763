// How the states of a text's tokens become one vector, as the model's own files say.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MetadataReader } from '../weights/gguf-metadata.ts';
import { type JsonObject, readJsonFile } from '../weights/json-file.ts';
import type { OpenedModel, SafetensorsModel } from '../weights/open-model.ts';
import { denseShapes } from './dense-layers.ts';
import { modulesOf } from './modules.ts';
import type { ModelSpec } from './spec.ts';
import { isEncoder } from './spec-walk.ts';

export type Pooling = 'mean' | 'cls' | 'last';

/** `none`: the states of all tokens, one after the other. */
export type StatePooling = Pooling | 'none';

export type ModelPooling =
  /** `declared`: the model was made for it; others give what their last state is worth. */
  | { readonly possible: true; readonly pooling: Pooling; readonly declared: boolean }
  | { readonly possible: false; readonly problem: string };

/** Where nobody says: the last token of a causal model has seen all others, and bidirectional tokens count alike. */
const undeclared = (spec: ModelSpec): ModelPooling => ({
  possible: true,
  pooling: isEncoder(spec) ? 'mean' : 'last',
  declared: false,
});

export function modelPooling(opened: OpenedModel, spec: ModelSpec): ModelPooling {
  const pooling = opened.format === 'gguf' ? ggufPooling(opened, spec) : folderPooling(opened, spec);
  return pooling.possible ? (mappedWrongly(opened, spec) ?? pooling) : pooling;
}

/** Maps after pooling must lead from states back to vectors of their size, which is all that is known of them. */
function mappedWrongly(opened: OpenedModel, { hiddenSize }: ModelSpec): ModelPooling | undefined {
  const shapes = denseShapes(opened);
  const sizes = [hiddenSize, ...shapes.map(({ rows }) => rows)];
  const fits = shapes.every(({ columns }, at) => columns === sizes[at]) && sizes.at(-1) === hiddenSize;
  const chain = shapes.map(({ columns, rows }) => `${columns} to ${rows}`).join(', then ');
  return fits
    ? undefined
    : impossible(`maps its vectors of ${hiddenSize} values from ${chain}, which is not supported`);
}

const declared = (pooling: Pooling): ModelPooling => ({ possible: true, pooling, declared: true });
const impossible = (problem: string): ModelPooling => ({ possible: false, problem });

const ranks = impossible('ranks texts with a head of its own, which is not supported');

/** By the numbers that llama.cpp gives them; 0 is none. */
const ggufPoolings: Readonly<Record<number, ModelPooling>> = {
  1: declared('mean'),
  2: declared('cls'),
  3: declared('last'),
  4: ranks,
};

function ggufPooling(gguf: Extract<OpenedModel, { format: 'gguf' }>, spec: ModelSpec): ModelPooling {
  const reader = new MetadataReader(gguf);
  const prefix = reader.optionalString('general.architecture') ?? '';
  const isCausal = reader.optionalBoolean(`${prefix}.attention.causal`) ?? true;
  if (!isCausal && !isEncoder(spec)) return impossible(bothWays);
  const type = reader.optionalNumber(`${prefix}.pooling_type`) ?? 0;
  if (type === 0) return undeclared(spec);
  return (
    ggufPoolings[type] ?? impossible(`pools in a way that is not known: ${prefix}.pooling_type is ${type}`)
  );
}

const bothWays = 'lets tokens see later ones, which is not supported';

/** Folders of the sentence-transformers library list what happens to a text, step by step. */
function folderPooling({ directory, config }: SafetensorsModel, spec: ModelSpec): ModelPooling {
  const isCausal = config.use_bidirectional_attention !== true && config.is_causal !== false;
  if (!isCausal && !isEncoder(spec)) return impossible(bothWays);
  const modules = modulesOf(directory);
  const { architectures } = config;
  const isRanker =
    Array.isArray(architectures) && /ForSequenceClassification$/.test(String(architectures[0]));
  if (modules === undefined) return isRanker ? ranks : undeclared(spec);
  const kinds = modules.map(({ kind }) => kind);
  // Vectors leave here at length 1 with or without the last.
  const unknownKind = kinds.find((kind) => !['Transformer', 'Pooling', 'Dense', 'Normalize'].includes(kind));
  if (unknownKind !== undefined)
    return impossible(`has a step ${unknownKind} after its layers, which is not supported`);
  if (kinds.lastIndexOf('Dense') > kinds.lastIndexOf('Normalize') && kinds.includes('Normalize'))
    return impossible('maps its vectors once they are normalized, which is not supported');
  const step = modules[kinds.indexOf('Pooling')];
  if (step === undefined) return undeclared(spec);
  const file = join(step.directory, 'config.json');
  return existsSync(file) ? namedPooling(readJsonFile(file)) : undeclared(spec);
}

const poolingNames: Readonly<Record<string, Pooling>> = { mean: 'mean', cls: 'cls', lasttoken: 'last' };

/** Written as one name, or as a switch for each: `pooling_mode_mean_tokens`. */
function namedPooling(settings: JsonObject): ModelPooling {
  const switched = Object.keys(settings).filter((key) => settings[key] === true);
  const names =
    typeof settings.pooling_mode === 'string'
      ? [settings.pooling_mode]
      : switched.flatMap((key) => /^pooling_mode_(\w+?)(?:_tokens?)?$/.exec(key)?.[1] ?? []);
  const [name = ''] = names;
  const pooling = names.length === 1 ? poolingNames[name] : undefined;
  return pooling === undefined
    ? impossible(`pools in a way that is not supported: ${names.join(' and ') || 'none'}`)
    : declared(pooling);
}
