// The GGUF file that all contenders read: one that is given, random weights in a known shape, written once and kept, or a copy in
// float32. llama.cpp rounds activations to the type of the weights; with the copy only the computation differs.

import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { dummyModel, parseDummy } from '../dist/bench/dummy-model.js';
import { writeGguf } from '../dist/bench/write-gguf.js';
import { openGguf } from '../dist/weights/gguf.js';
import { readFloatRows } from '../dist/weights/weight-source.js';

/**
 * @param {string} wanted such as llama-3.2-1b:q4_0
 * @param {string} folder
 * @param {number} [layers] instead of the shape's own
 */
export async function dummyFile(wanted, folder, layers) {
  const parsed = parseDummy(wanted);
  if (parsed === undefined) throw new Error(`--dummy: ${wanted} is not known; try llama-3.2-1b:q4_0`);
  const cut = layers === undefined ? '' : `-${layers}-layers`;
  const path = join(folder, `${parsed.shape}-${parsed.type.toLowerCase()}${cut}.gguf`);
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true });
  await writeGguf(dummyModel(parsed.shape, parsed.type, layers), path);
  return path;
}

/**
 * @param {string} path
 * @param {string} copyPath
 */
export async function writeFloatCopy(path, copyPath) {
  const file = openGguf(path);
  try {
    await writeGguf(floatCopy(file), copyPath);
  } finally {
    file.weights.close();
  }
}

/** @param {import('../dist/weights/gguf.js').GgufFile} file */
function floatCopy(file) {
  const { weights } = file;
  return {
    ...file,
    metadata: new Map([...file.metadata].map(([key, value]) => [key, wide(value)])).set(
      'general.file_type',
      0,
    ),
    weights: {
      tensors: new Map(
        [...weights.tensors].map(([name, tensor]) => [
          name,
          { ...tensor, type: /** @type {const} */ ('F32') },
        ]),
      ),
      readRows(name, first, count, into) {
        const floats = readFloatRows(weights, name, first, count);
        into.set(new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength));
      },
      close() {},
    },
  };
}

/** Booleans are read as bytes; llama.cpp expects words. */
function wide(value) {
  return value instanceof Uint8Array ? Uint32Array.from(value) : value;
}
