// How the states of a text's tokens become one vector, as the model's own files say.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MetadataReader } from '../weights/gguf-metadata.ts';
import { isJsonObject, type JsonObject, readJsonFile, readJsonList } from '../weights/json-file.ts';
import type { OpenedModel, SafetensorsModel } from '../weights/open-model.ts';

/** The mean of all, the first, or the last. */
export type Pooling = 'mean' | 'cls' | 'last';

export type ModelPooling =
  /** `declared`: the model was made for it; others give what their last state is worth. */
  | { readonly possible: true; readonly pooling: Pooling; readonly declared: boolean }
  | { readonly possible: false; readonly problem: string };

/** Where nobody says: the last token of a causal model has seen all others. */
const undeclared: ModelPooling = { possible: true, pooling: 'last', declared: false };

export function modelPooling(opened: OpenedModel): ModelPooling {
  return opened.format === 'gguf' ? ggufPooling(opened) : folderPooling(opened);
}

const declared = (pooling: Pooling): ModelPooling => ({ possible: true, pooling, declared: true });
const impossible = (problem: string): ModelPooling => ({ possible: false, problem });

/** By the numbers that llama.cpp gives them. */
const ggufPoolings: Readonly<Record<number, ModelPooling>> = {
  0: undeclared,
  1: declared('mean'),
  2: declared('cls'),
  3: declared('last'),
  4: impossible('ranks texts with a head of its own, which is not supported'),
};

function ggufPooling(gguf: Extract<OpenedModel, { format: 'gguf' }>): ModelPooling {
  const reader = new MetadataReader(gguf);
  const prefix = reader.optionalString('general.architecture') ?? '';
  if (reader.optionalBoolean(`${prefix}.attention.causal`) === false) return impossible(bothWays);
  const type = reader.optionalNumber(`${prefix}.pooling_type`) ?? 0;
  return (
    ggufPoolings[type] ?? impossible(`pools in a way that is not known: ${prefix}.pooling_type is ${type}`)
  );
}

const bothWays = 'lets tokens see later ones, which is not supported';

/** Folders of the sentence-transformers library list what happens to a text, step by step. */
function folderPooling({ directory, config }: SafetensorsModel): ModelPooling {
  if (config.use_bidirectional_attention === true || config.is_causal === false) return impossible(bothWays);
  const path = join(directory, 'modules.json');
  if (!existsSync(path)) return undeclared;
  const modules = readJsonList(path).filter(isJsonObject);
  const kinds = modules.map(({ type }) => String(type).split('.').at(-1) ?? '');
  // Vectors leave here at length 1 with or without the last.
  const stranger = kinds.find((kind) => !['Transformer', 'Pooling', 'Normalize'].includes(kind));
  if (stranger !== undefined)
    return impossible(`has a step ${stranger} after its layers, which is not supported`);
  const step = modules[kinds.indexOf('Pooling')];
  const file = join(directory, String(step?.path), 'config.json');
  return step === undefined || !existsSync(file) ? undeclared : namedPooling(readJsonFile(file));
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
