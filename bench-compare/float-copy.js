// A GGUF file with every weight as the float32 that it stands for. llama.cpp rounds what it multiplies to the kind of
// number that the weights are; with this file it rounds nothing, and differences are of the computation alone.

import { writeGguf } from '../dist/bench/write-gguf.js';
import { openGguf } from '../dist/weights/gguf.js';
import { readFloatRows } from '../dist/weights/weight-source.js';

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

/** Lists of yes and no are read as bytes. llama.cpp takes them as words, not as bytes. */
function wide(value) {
  return value instanceof Uint8Array ? Uint32Array.from(value) : value;
}
