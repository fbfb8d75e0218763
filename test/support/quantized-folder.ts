// Quantized models whose parts follow a formula, with what the Python packages make of them: tools/quantized-models made them.

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { type OpenedModel, openModelFiles } from '../../src/weights/open-model.ts';
import { toHalf } from '../../src/weights/quants/floats.ts';
import { cosine } from './backend-properties.ts';
import { type FormulaModel, formulaLogits, knownLogits } from './formula-model.ts';
import { type SafetensorsWriterTensor, writeSafetensors } from './safetensors-writer.ts';

interface Part {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Of scales: values are this times 0.5 to 1.5. */
  readonly factor?: number;
  /** Again and again. */
  readonly words?: readonly number[];
  readonly bytes?: readonly number[];
  /** Of the groups of inputs: how far neighbours of a group lie apart. */
  readonly stride?: number;
  readonly size?: number;
  readonly positive?: boolean;
  /** Of 256 values between -1 and 1, many of them small. */
  readonly map?: 'fourth power';
  /** Where there is no formula. */
  readonly base64?: string;
}

export interface QuantizedModel extends Omit<FormulaModel, 'tensors'> {
  readonly parts: Readonly<Record<string, Part>>;
  /** SHA-256 of the weights that the package dequantizes, as float32. */
  readonly weights: Readonly<Record<string, string>>;
}

const stored: { readonly models: Readonly<Record<string, QuantizedModel>> } = JSON.parse(
  readFileSync(new URL('../golden/quantized-models.json', import.meta.url), 'utf8'),
);

export const quantizedModels = stored.models;

function quantizedTensors({ parts }: QuantizedModel): readonly SafetensorsWriterTensor[] {
  return Object.entries(parts).map(([name, part]) => {
    const { dtype, shape } = part;
    return { name, dtype, shape, bytes: contents(name, part) };
  });
}

/** Writes config.json and model.safetensors into a new folder of `root`, and opens it. */
export function openQuantized(model: QuantizedModel, root: string): OpenedModel {
  const folder = mkdtempSync(join(root, 'model-'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(model.config));
  writeFileSync(join(folder, 'model.safetensors'), writeSafetensors(quantizedTensors(model)));
  return openModelFiles(folder);
}

/** The cosine of the logits that are known and those that a backend computes. */
export async function quantizedLikeness(
  create: CreateBackend,
  model: QuantizedModel,
  root: string,
): Promise<number> {
  const opened = openQuantized(model, root);
  const formula = { ...model, tensors: {} };
  const logits = await formulaLogits(create, formula, opened);
  opened.weights.close();
  const { known, computed } = knownLogits(formula, logits);
  return cosine(known, computed);
}

/** Has a twin in tools/quantized-models/golden.py. */
function contents(name: string, part: Part): Uint8Array {
  const count = part.shape.reduce((product, size) => product * size, 1);
  if (part.base64 !== undefined) return Buffer.from(part.base64, 'base64');
  const { words, bytes, stride, size = 1 } = part;
  if (bytes !== undefined) return Uint8Array.from({ length: count }, (_, i) => bytes[i % bytes.length] ?? 0);
  if (words !== undefined)
    return bytesOf(Uint32Array.from({ length: count }, (_, i) => words[i % words.length] ?? 0));
  if (stride !== undefined) {
    return bytesOf(Int32Array.from({ length: count }, (_, i) => Math.floor(((i * stride) % count) / size)));
  }
  if (part.map !== undefined) {
    return bytesOf(
      Float32Array.from({ length: count }, (_, i) => Math.sign(i - 127) * ((i - 127) / 128) ** 4),
    );
  }
  const bits = hashed(name, count);
  switch (part.dtype) {
    case 'I32':
      return bytesOf(bits);
    case 'I8':
    case 'U8':
      return Uint8Array.from(bits);
    case 'F8_E4M3':
      return Uint8Array.from(bits, (value) => float8(value & 255, part.positive === true));
    default:
      return floats(name, part, bits);
  }
}

/** No NaN, which has all bits set but the sign. */
function float8(code: number, positive: boolean): number {
  const number = (code & 127) === 127 ? code ^ 1 : code;
  return positive ? number & 127 : number;
}

function floats(name: string, { dtype, factor }: Part, bits: Uint32Array): Uint8Array {
  const norm = name.toLowerCase().includes('norm') ? 1 : 0;
  const values = Float32Array.from(bits, (value) => {
    const share = value / 2 ** 32;
    return factor === undefined ? share * 0.5 - 0.25 + norm : factor * (0.5 + share);
  });
  if (dtype === 'F16') return bytesOf(Uint16Array.from(values, toHalf));
  if (dtype === 'BF16') return bytesOf(Uint16Array.from(new Uint32Array(values.buffer), roundedUpper));
  return bytesOf(values);
}

function roundedUpper(bits: number): number {
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

function hashed(name: string, count: number): Uint32Array {
  const weighted = [...name].reduce((sum, letter, index) => sum + (index + 1) * letter.charCodeAt(0), 0);
  return Uint32Array.from({ length: count }, (_, index) => {
    let bits = Math.imul(index, 2654435761) + Math.imul(weighted, 40503);
    bits ^= bits >>> 15;
    bits = Math.imul(bits, 2246822519);
    return bits ^ (bits >>> 13);
  });
}

function bytesOf(values: Uint32Array | Int32Array | Uint16Array | Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
