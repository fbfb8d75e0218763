// What a model is, from its headers alone: for those who list models or look at one. Read once for as long as its files
// do not change.

import { setImmediate } from 'node:timers/promises';
import { buildSpec } from '../model/build-spec.ts';
import type { ModelSpec } from '../model/spec.ts';
import { attendingOf, feedForwardSizes } from '../model/spec-walk.ts';
import type { GgufValue } from '../weights/gguf-metadata.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';
import { columnsOf, rowsOf } from '../weights/weight-source.ts';
import { modelFilesAt } from './model-files.ts';
import type { ModelFormat } from './model-registry.ts';

export interface ModelCard {
  readonly format: ModelFormat;
  readonly architecture: string;
  readonly parameters: number;
  /** As its author calls it, or else the encoding that most weights have. */
  readonly quantization: string;
  readonly sizeBytes: number;
  readonly changedSeconds: number;
  /** What its header says, by the keys of GGUF; null in place of lists. */
  readonly metadata: Readonly<Record<string, string | number | boolean | null>>;
}

export class ModelCards {
  readonly #cards = new Map<string, { readonly state: string; readonly card: ModelCard }>();

  /** One after the other, and in between it is others' turn: a header with a large vocabulary takes a while. */
  async read(path: string): Promise<ModelCard> {
    const { sizeBytes, changedSeconds } = modelFilesAt(path);
    const state = JSON.stringify([sizeBytes, changedSeconds]);
    const known = this.#cards.get(path);
    if (known?.state === state) return known.card;
    await setImmediate();
    const card = { ...headerOf(path), sizeBytes, changedSeconds };
    this.#cards.set(path, { state, card });
    return card;
  }
}

/** What a card leaves out: the lists of a GGUF's header, such as its vocabulary, and the tensors. */
export interface ModelContents {
  readonly lists: Readonly<Record<string, readonly (string | number)[]>>;
  readonly tensors: readonly {
    readonly name: string;
    readonly type: string;
    readonly shape: readonly number[];
  }[];
}

export function contentsOf(path: string): ModelContents {
  const files = openModelFiles(path);
  try {
    const metadata = files.format === 'gguf' ? [...files.metadata] : [];
    const lists = metadata.flatMap(([key, value]) =>
      typeof value === 'object'
        ? [[key, Array.from(value as Iterable<string | number>, plain)] as const]
        : [],
    );
    const tensors = [...files.weights.tensors].map(([name, { type, shape }]) => ({
      name,
      type,
      shape: [...shape],
    }));
    return { lists: Object.fromEntries(lists), tensors };
  } finally {
    files.weights.close();
  }
}

function plain(value: string | number | bigint): string | number {
  return typeof value === 'bigint' ? Number(value) : value;
}

function headerOf(path: string): Omit<ModelCard, 'sizeBytes' | 'changedSeconds'> {
  const files = openModelFiles(path);
  try {
    const spec = buildSpec(files);
    const byType = parametersByType(files);
    const parameters = [...byType.values()].reduce((sum, count) => sum + count, 0);
    const [mostOf = 'unknown'] = [...byType].toSorted(([, a], [, b]) => b - a)[0] ?? [];
    const { architecture } = spec;
    const metadata = files.format === 'gguf' ? ggufMetadata(files.metadata) : specMetadata(spec);
    return {
      format: files.format,
      architecture,
      parameters,
      quantization: fileTypes.get(Number(metadata['general.file_type'] ?? Number.NaN)) ?? mostOf,
      metadata: { ...metadata, 'general.parameter_count': parameters },
    };
  } finally {
    files.weights.close();
  }
}

function parametersByType({ weights }: OpenedModel): Map<string, number> {
  const byType = new Map<string, number>();
  for (const tensor of weights.tensors.values()) {
    const values = rowsOf(tensor) * columnsOf(tensor);
    byType.set(tensor.type, (byType.get(tensor.type) ?? 0) + values);
  }
  return byType;
}

function ggufMetadata(metadata: ReadonlyMap<string, GgufValue>): ModelCard['metadata'] {
  return Object.fromEntries(
    [...metadata].map(([key, value]) => {
      if (typeof value === 'bigint') return [key, Number(value)];
      return [key, typeof value === 'object' ? null : value];
    }),
  );
}

function specMetadata(spec: ModelSpec): ModelCard['metadata'] {
  const { architecture: name } = spec;
  const [attention] = attendingOf(spec);
  return {
    'general.architecture': name,
    [`${name}.context_length`]: spec.contextLength,
    [`${name}.embedding_length`]: spec.hiddenSize,
    [`${name}.block_count`]: spec.layers.length,
    [`${name}.feed_forward_length`]: feedForwardSizes(spec).dense ?? null,
    [`${name}.attention.head_count`]: attention?.headCount ?? null,
    [`${name}.attention.head_count_kv`]: spec.caches[attention?.cache ?? 0]?.headCount ?? null,
    [`${name}.vocab_size`]: spec.vocabSize,
  };
}

/** The numbers of `general.file_type`. */
const fileTypes: ReadonlyMap<number, string> = new Map([
  [0, 'F32'],
  [1, 'F16'],
  [2, 'Q4_0'],
  [3, 'Q4_1'],
  [7, 'Q8_0'],
  [8, 'Q5_0'],
  [9, 'Q5_1'],
  [10, 'Q2_K'],
  [11, 'Q3_K_S'],
  [12, 'Q3_K_M'],
  [13, 'Q3_K_L'],
  [14, 'Q4_K_S'],
  [15, 'Q4_K_M'],
  [16, 'Q5_K_S'],
  [17, 'Q5_K_M'],
  [18, 'Q6_K'],
  [19, 'IQ2_XXS'],
  [20, 'IQ2_XS'],
  [21, 'Q2_K_S'],
  [22, 'IQ3_XS'],
  [23, 'IQ3_XXS'],
  [24, 'IQ1_S'],
  [25, 'IQ4_NL'],
  [26, 'IQ3_S'],
  [27, 'IQ3_M'],
  [28, 'IQ2_S'],
  [29, 'IQ2_M'],
  [30, 'IQ4_XS'],
  [31, 'IQ1_M'],
  [32, 'BF16'],
  [36, 'TQ1_0'],
  [37, 'TQ2_0'],
  [38, 'MXFP4'],
]);
