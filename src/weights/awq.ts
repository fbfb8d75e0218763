// Models quantized by AWQ, in AutoAWQ's packing for GEMM: the parts of a module are presented as one tensor `X.weight`.
//
//   X.qweight int32 [inputs, outputs / 8]   codes of eight outputs in a word, in the order 0 2 4 6 1 3 5 7
//   X.qzeros  int32 [groups, outputs / 8]   likewise
//   X.scales  float [groups, outputs]

import {
  type DerivedTensor,
  derivedBySuffix,
  type PackedParts,
  partFault,
  partsOfCodes,
  readScales,
  requireShape,
  wordMatrix,
} from './derived-weights.ts';
import { type IntegerRows, integerTensor } from './integer-matrix.ts';
import type { JsonObject } from './json-file.ts';
import { refuseSetting, requireSetting, shown } from './quantization-settings.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';
import type { WeightSource } from './weight-source.ts';

const CODES = '.qweight';
/** The output of each nibble of a word, lowest first. */
const outputOrder = [0, 2, 4, 6, 1, 3, 5, 7] as const;

/** -1: one group for all inputs. */
export function awqGroupSize(settings: JsonObject, configPath: string): number {
  requireSetting(settings, 'bits', [4], configPath);
  const { group_size: size, version = settings.format ?? settings.checkpoint_format ?? 'gemm' } = settings;
  if (typeof version !== 'string' || version.toLowerCase() !== 'gemm') {
    throw refuseSetting(configPath, 'version', `${shown(version)} is not supported, but "gemm" is`);
  }
  requireSetting(settings, 'zero_point', [undefined, true], configPath);
  if (size === -1 || (Number.isSafeInteger(size) && (size as number) > 0)) return size as number;
  throw refuseSetting(configPath, 'group_size', `${shown(size)} is no size of groups`);
}

export function awqWeights(model: Safetensors, groupSize: number): WeightSource {
  return derivedBySuffix(model, CODES, (codes, module) => quantizedTensor(model, codes, module, groupSize));
}

function quantizedTensor(
  model: Safetensors,
  codes: SafetensorsEntry,
  module: string,
  groupSize: number,
): DerivedTensor {
  const { zeros, scales } = partsOfCodes(model, codes, module);
  const [columns = 0, wordsPerInput = 0] = codes.shape;
  if (codes.shape.length !== 2 || codes.bytes === 0 || columns % 8 !== 0) {
    const shape = codes.shape.slice(0, 8).join(', ');
    throw partFault(codes, `has the shape [${shape}], not one of inputs by packed outputs`);
  }
  const size = groupSize === -1 ? columns : groupSize;
  const groups = Math.ceil(columns / size);
  const rows = 8 * wordsPerInput;
  const needs = `a weight in groups of ${size}`;
  requireShape(scales, [groups, rows], needs);
  requireShape(zeros, [groups, wordsPerInput], needs);
  const words = { codes: wordMatrix(codes), zeros: wordMatrix(zeros), scales };
  return integerTensor({
    name: `${module}.weight`,
    rows,
    columns,
    bits: 4,
    groups,
    grouping: size,
    scales,
    symmetric: false,
    parts: [codes, zeros, scales],
    read: (first, count) => readRows(words, first, count),
  });
}

function readRows({ codes, zeros, scales }: PackedParts, first: number, count: number): IntegerRows {
  const [firstWord, end] = [first >> 3, Math.ceil((first + count) / 8)];
  const wordCount = end - firstWord;
  return {
    words: rowsOfCodes(codes.columns(firstWord, wordCount), wordCount, first & 7, count),
    scales: readScales(scales, first, count),
    zeros: rowsOfZeros(zeros.rows(firstWord, wordCount), wordCount, first & 7, count),
  };
}

/** `count` rows of codes after `skipped`, each packed along inputs, from words that hold eight outputs. */
function rowsOfCodes(words: Int32Array, wordCount: number, skipped: number, count: number): Int32Array {
  const inputs = words.length / wordCount;
  const wordsPerRow = inputs / 8;
  const rows = new Int32Array(count * wordsPerRow);
  const square = new Int32Array(8);
  for (let word = 0; word < wordCount; word++) {
    for (let at = 0; at < wordsPerRow; at++) {
      const from = word * inputs + 8 * at;
      for (let i = 0; i < 8; i++) square[i] = words[from + i] as number;
      transposeNibbles(square);
      for (let i = 0; i < 8; i++) {
        const row = 8 * word + (outputOrder[i] as number) - skipped;
        if (row >= 0 && row < count) rows[row * wordsPerRow + at] = square[i] as number;
      }
    }
  }
  return rows;
}

/** Transposes nibbles: blocks of four, two and one are swapped across the diagonal. */
function transposeNibbles(words: Int32Array): void {
  swapBlocks(words, 4, 0x0000ffff);
  swapBlocks(words, 2, 0x00ff00ff);
  swapBlocks(words, 1, 0x0f0f0f0f);
}

function swapBlocks(words: Int32Array, size: number, mask: number): void {
  const shift = 4 * size;
  for (let i = 0; i < 8; i++) {
    if ((i & size) !== 0) continue;
    const early = words[i] as number;
    const late = words[i + size] as number;
    const different = ((early >>> shift) ^ late) & mask;
    words[i] = early ^ (different << shift);
    words[i + size] = late ^ different;
  }
}

function rowsOfZeros(words: Int32Array, wordCount: number, skipped: number, count: number): Int32Array {
  const groups = words.length / wordCount;
  const zeros = new Int32Array(count * groups);
  for (let group = 0; group < groups; group++) {
    for (let row = 0; row < count; row++) {
      const output = skipped + row;
      const nibble = outputOrder.indexOf((output & 7) as 0);
      const word = words[group * wordCount + (output >> 3)] as number;
      zeros[row * groups + group] = (word >>> (4 * nibble)) & 15;
    }
  }
  return zeros;
}
