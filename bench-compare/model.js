// The GGUF file that all contenders read: one that is given, or random weights in a known model's shape, written once
// and kept.

import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { dummyModel, parseDummy } from '../dist/bench/dummy-model.js';
import { writeGguf } from '../dist/bench/write-gguf.js';

/**
 * @param {string} wish such as llama-3.2-1b:q4_0
 * @param {string} folder
 * @param {number} [layers] instead of the shape's own
 */
export async function dummyFile(wish, folder, layers) {
  const parsed = parseDummy(wish);
  if (parsed === undefined) throw new Error(`--dummy: ${wish} is not known; try llama-3.2-1b:q4_0`);
  const cut = layers === undefined ? '' : `-${layers}-layers`;
  const path = join(folder, `${parsed.shape}-${parsed.type.toLowerCase()}${cut}.gguf`);
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true });
  await writeGguf(dummyModel(parsed.shape, parsed.type, layers), path);
  return path;
}
