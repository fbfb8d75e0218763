// Opens model files by path: a GGUF, a safetensors file, or a folder with one of them.

import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { unreadableFile } from './file-reader.ts';
import { type GgufFile, openGguf } from './gguf.ts';
import type { JsonObject } from './json-file.ts';
import { isMlxConfig } from './mlx.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { withQuantizationFile } from './quantization-settings.ts';
import { weightsOpener } from './quantized-weights.ts';
import { openSafetensors, openSafetensorsIndex, type Safetensors } from './safetensors.ts';
import type { WeightSource } from './weight-source.ts';

export interface SafetensorsModel {
  readonly format: 'safetensors' | 'mlx';
  readonly path: string;
  readonly directory: string;
  readonly config: JsonObject;
  /** The distinct writers named in headers, e.g. `pt` or `mlx`. */
  readonly headerFormats?: readonly string[];
  readonly weights: WeightSource;
}

export type OpenedModel = GgufFile | SafetensorsModel;

const CONFIG = 'config.json';
const INDEX = 'model.safetensors.index.json';
const SINGLE = 'model.safetensors';

/** Reads headers alone; close `weights` when done. In a folder with both kinds, safetensors win. */
export function openModelFiles(path: string): OpenedModel {
  if (isDirectory(path)) return openFolder(path);
  if (path.endsWith('.safetensors')) return openSafetensorsFile(path);
  return openGguf(path);
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    throw unreadableFile(path, error);
  }
}

function openFolder(directory: string): OpenedModel {
  const names = fileNames(directory);
  const safetensors = names.filter((name) => name.endsWith('.safetensors'));
  if (names.includes(SINGLE)) return openSafetensorsFile(join(directory, SINGLE));
  if (names.includes(INDEX)) {
    return withConfig(directory, join(directory, INDEX), () => openSafetensorsIndex(join(directory, INDEX)));
  }
  const [first] = safetensors;
  if (first !== undefined && safetensors.length === 1) return openSafetensorsFile(join(directory, first));
  if (first !== undefined) {
    throw folderFault(directory, `holds ${safetensors.length} safetensors files but no ${INDEX}`, {
      remedy: `Download ${INDEX} into the folder.`,
    });
  }
  return openGguf(join(directory, onlyGguf(directory, names)));
}

function fileNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory).sort();
  } catch (error) {
    throw unreadableFile(directory, error);
  }
}

/** Of a vision tower that lies beside its model. */
export function isProjectorName(name: string): boolean {
  return name.endsWith('.gguf') && /mmproj/i.test(name);
}

/** The only GGUF of a folder, or the first part of a split one. */
function onlyGguf(directory: string, names: readonly string[]): string {
  const files = names.filter((name) => name.endsWith('.gguf') && !isProjectorName(name));
  const starts = files.filter((name) => !/-\d{5}-of-\d{5}\.gguf$/.test(name) || name.includes('-00001-of-'));
  const [start] = starts;
  if (start !== undefined && starts.length === 1) return start;
  if (start !== undefined) {
    throw folderFault(directory, `holds several GGUF files: ${printable(starts.join(', '))}`, {
      remedy: 'Give the path of one of them.',
    });
  }
  throw folderFault(directory, 'holds no model', {
    remedy: `Give a folder with ${CONFIG} and ${SINGLE}, or a .gguf file.`,
  });
}

function openSafetensorsFile(path: string): SafetensorsModel {
  const directory = dirname(path);
  if (/-\d{5}-of-\d{5}\.safetensors$/.test(basename(path)) && existsSync(join(directory, INDEX))) {
    throw folderFault(path, 'is one shard of a model', { remedy: 'Give the path of its folder.' });
  }
  return withConfig(directory, path, () => openSafetensors(path, [path]));
}

function withConfig(directory: string, path: string, open: () => Safetensors): SafetensorsModel {
  const { config, path: settingsPath } = withQuantizationFile(directory, join(directory, CONFIG));
  const openWeights = weightsOpener(config, settingsPath);
  const model = open();
  try {
    const format = isMlxConfig(config) ? 'mlx' : 'safetensors';
    const { headerFormats } = model;
    return { format, path, directory, config, headerFormats, weights: openWeights(model) };
  } catch (error) {
    for (const file of model.files) file.close();
    throw error;
  }
}

function folderFault(file: string, problem: string, { remedy }: { readonly remedy: string }): ModelFileError {
  return new ModelFileError({ file, field: 'path', problem, remedy });
}
