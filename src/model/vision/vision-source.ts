// Where a vision tower comes from, as its family sees it: fields of the tower under the names of Hugging Face, whichever file
// they came from, and those of its preprocessing.

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readJsonFile } from '../../weights/json-file.ts';
import type { OpenedModel } from '../../weights/open-model.ts';
import type { VisionFiles } from '../../weights/vision-files.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { type Config, isRecord, nested } from '../config.ts';
import type { ModelSpec } from '../spec.ts';
import type { Naming } from '../tensor-names.ts';

export interface VisionSource {
  readonly naming: Naming;
  /** `model_type` of config.json, or a projector file's `clip.projector_type`. */
  readonly kind: unknown;
  /** Fields of the tower. */
  readonly config: Config;
  /** Fields of the whole model; none of a projector file. */
  readonly outer: Config;
  /** Fields of its preprocessing; those that no file gives are absent. */
  readonly settings: Config;
  readonly weights: WeightSource;
  /** Values of the text model's residual stream. */
  readonly hiddenSize: number;
  /** Of the text model's norms. */
  readonly textEpsilon: number;
}

export function visionSource(
  opened: OpenedModel,
  { projector, weights }: VisionFiles,
  { hiddenSize, normEpsilon: textEpsilon }: Pick<ModelSpec, 'hiddenSize' | 'normEpsilon'>,
): VisionSource {
  if (opened.format === 'gguf') {
    const { path, metadata } = projector ?? opened;
    const config = projectorConfig(path, metadata);
    const settings = settingsOf(dirname(path), config);
    const kind = metadata.get('clip.vision.projector_type') ?? metadata.get('clip.projector_type');
    const outer = { file: path, fields: {}, spellings: {} };
    return { naming: 'gguf', kind, config, outer, settings, weights, hiddenSize, textEpsilon };
  }
  const outer = { file: join(opened.directory, 'config.json'), fields: opened.config, spellings: {} };
  const vision = opened.config.vision_config;
  const config = nested(outer, 'vision_config', isRecord(vision) ? vision : {});
  const settings = settingsOf(opened.directory, config);
  return {
    naming: 'hugging-face',
    kind: opened.config.model_type,
    config,
    outer,
    settings,
    weights,
    hiddenSize,
    textEpsilon,
  };
}

const projectorKeys = {
  hidden_size: 'embedding_length',
  intermediate_size: 'feed_forward_length',
  num_hidden_layers: 'block_count',
  num_attention_heads: 'attention.head_count',
  layer_norm_eps: 'attention.layer_norm_epsilon',
  image_size: 'image_size',
  patch_size: 'patch_size',
  image_mean: 'image_mean',
  image_std: 'image_std',
  spatial_merge_size: 'spatial_merge_size',
  scale_factor: 'projector.scale_factor',
  longest_edge: 'preproc_image_size',
  deepstack_layers: 'is_deepstack_layers',
  full_attention_interval: 'n_wa_pattern',
} as const;

function projectorConfig(file: string, metadata: ReadonlyMap<string, unknown>): Config {
  const spellings = Object.fromEntries(
    Object.entries(projectorKeys).map(([field, key]) => [field, `clip.vision.${key}`]),
  );
  const fields = Object.fromEntries(
    Object.entries(spellings).map(([field, key]) => [field, plain(metadata.get(key))]),
  );
  return { file, fields, spellings };
}

function plain(value: unknown): unknown {
  return ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value;
}

/** The folder's own files of settings, the newer wording first; else what the tower's fields say. */
function settingsOf(directory: string, config: Config): Config {
  const processor = fileIn(directory, 'processor_config.json')?.image_processor;
  const own = isRecord(processor) ? processor : fileIn(directory, 'preprocessor_config.json');
  const name = isRecord(processor) ? 'processor_config.json' : 'preprocessor_config.json';
  if (own === undefined) return config;
  return { file: join(directory, name), fields: { ...config.fields, ...own }, spellings: config.spellings };
}

function fileIn(directory: string, name: string): Readonly<Record<string, unknown>> | undefined {
  const path = join(directory, name);
  return existsSync(path) ? readJsonFile(path) : undefined;
}
