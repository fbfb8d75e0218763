// Folders of EAGLE-3 heads, as their authors, SpecForge and vLLM's speculators write them: a config.json and safetensors whose
// tensors have the same names but for what stands before them.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonObject, readJsonFile } from './json-file.ts';
import { ModelFileError } from './model-file-error.ts';
import { withQuantizationFile } from './quantization-settings.ts';
import { weightsOpener } from './quantized-weights.ts';
import { openSafetensors, openSafetensorsIndex, type Safetensors } from './safetensors.ts';
import type { TensorInfo, WeightSource } from './weight-source.ts';

export interface Eagle3Files {
  /** That of its config.json. */
  readonly path: string;
  readonly directory: string;
  readonly config: JsonObject;
  /** Tensors as `eagle3Prefix` and the names that speculators give them. */
  readonly weights: WeightSource;
  /** Of each row of its output, how far its token is from the row's number; absent: it has all tokens. */
  readonly tokenOffsets?: readonly number[];
}

/** No tensor of a model begins so. */
export const eagle3Prefix = 'model.eagle3.';

/** Whether a folder holds a head in place of a model. False where nothing can be read. */
export function isEagle3Folder(directory: string): boolean {
  const path = join(directory, 'config.json');
  return existsSync(path) && isEagle3Config(readJsonFile(path));
}

export function isEagle3Config({ architectures, speculators_model_type: kind }: JsonObject): boolean {
  return kind === 'eagle3' || (Array.isArray(architectures) && architectures.some(isEagle3Name));
}

function isEagle3Name(name: unknown): boolean {
  return typeof name === 'string' && /eagle3/i.test(name);
}

/** Close `weights` when done. */
export function openEagle3(directory: string): Eagle3Files {
  const path = join(directory, 'config.json');
  const { config, path: settingsPath } = withQuantizationFile(directory, path);
  const openWeights = weightsOpener(config, settingsPath);
  const files = openTensors(directory);
  try {
    const tokenOffsets = readOffsets(files);
    return {
      path,
      directory,
      config,
      weights: renamed(openWeights(files)),
      ...(tokenOffsets && { tokenOffsets }),
    };
  } catch (error) {
    for (const file of files.files) file.close();
    throw error;
  }
}

function openTensors(directory: string): Safetensors {
  const single = join(directory, 'model.safetensors');
  if (existsSync(single)) return openSafetensors(single, [single]);
  const index = join(directory, 'model.safetensors.index.json');
  if (existsSync(index)) return openSafetensorsIndex(index);
  throw new ModelFileError({
    file: directory,
    field: 'model.safetensors',
    problem: 'is not there, and no other file of an EAGLE-3 head is read',
    remedy: 'Save the head as safetensors.',
  });
}

const VALUE_BYTES = 8;

function readOffsets({ entries }: Safetensors): readonly number[] | undefined {
  const entry = entries.get('d2t') ?? entries.get('model.d2t');
  if (entry === undefined) return undefined;
  const { name, dtype, shape, file, offset, bytes } = entry;
  if (dtype !== 'I64' || shape.length !== 1) {
    throw new ModelFileError({
      file: file.path,
      field: name,
      problem: `is ${dtype} [${shape.join(', ')}], where one I64 for each token of the head is expected`,
      remedy: 'Download the head again.',
    });
  }
  const stored = file.readAt(offset, bytes, name);
  return Array.from({ length: bytes / VALUE_BYTES }, (_, at) =>
    Number(stored.readBigInt64LE(at * VALUE_BYTES)),
  );
}

function renamed(weights: WeightSource): WeightSource {
  const owners = new Map<string, string>();
  const tensors = new Map<string, TensorInfo>();
  for (const [own, info] of weights.tensors) {
    const name = eagle3Prefix + own.replace(/^model\./, '').replace(/^midlayer\./, 'layers.0.');
    owners.set(name, own);
    tensors.set(name, { ...info, name });
  }
  return {
    tensors,
    readRows: (name, first, count, into) => weights.readRows(owners.get(name) ?? name, first, count, into),
    close: () => weights.close(),
  };
}
