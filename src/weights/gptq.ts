// Models quantized by GPTQ (auto-gptq, GPTQModel, optimum): the parts of a module are presented as one tensor `X.weight`.
//
//   X.qweight int32 [inputs * bits / 32, outputs]   a column holds an output's codes as a row of bits
//   X.qzeros  int32 [groups, outputs * bits / 32]   likewise, along outputs; version 1 stores zeros less one
//   X.scales  float [groups, outputs]
//   X.g_idx   int32 [inputs]                        each input's group; with act-order they are scattered

import {
  type DerivedTensor,
  derivedBySuffix,
  type PackedParts,
  partFault,
  partsOfCodes,
  readPart,
  readScales,
  requireDtype,
  requireShape,
  type WordMatrix,
  wordMatrix,
} from './derived-weights.ts';
import { codeAt, type IntegerRows, integerTensor } from './integer-matrix.ts';
import { isJsonObject, type JsonObject } from './json-file.ts';
import { refuseSetting, requireSetting, shown } from './quantization-settings.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';
import type { WeightSource } from './weight-source.ts';

type GptqBits = 2 | 3 | 4 | 8;

interface Settings {
  readonly bits: GptqBits;
  /** -1: one group for all inputs. */
  readonly groupSize: number;
  /** What version 1 has taken from zeros before it stored them. */
  readonly zeroOffset: 0 | 1;
  /** Whether zeros may all be the middle of the codes. */
  readonly symmetric: boolean;
  /** Whether modules may have bits and groups of their own. */
  readonly mixed: boolean;
}

const CODES = '.qweight';
const knownBits: readonly unknown[] = [2, 3, 4, 8];

export function gptqSettings(settings: JsonObject, configPath: string): Settings {
  const { bits, group_size: groupSize, checkpoint_format: format = settings.format ?? 'gptq' } = settings;
  requireSetting(settings, 'bits', knownBits, configPath);
  if (format !== 'gptq' && format !== 'gptq_v2') {
    throw refuseSetting(configPath, 'checkpoint_format', `${shown(format)} is not supported`);
  }
  requireSetting(settings, 'is_marlin_format', [undefined, null, false], configPath);
  if (!Number.isSafeInteger(groupSize) || groupSize === 0 || (groupSize as number) < -1) {
    throw refuseSetting(configPath, 'group_size', `${shown(groupSize)} is no size of groups`);
  }
  return {
    bits: bits as GptqBits,
    groupSize: groupSize as number,
    zeroOffset: format === 'gptq' ? 1 : 0,
    symmetric: settings.sym !== false,
    mixed: isJsonObject(settings.dynamic) && Object.keys(settings.dynamic).length > 0,
  };
}

export function gptqWeights(model: Safetensors, settings: Settings): WeightSource {
  return derivedBySuffix(model, CODES, (codes, module) => quantizedTensor(model, codes, module, settings));
}

function quantizedTensor(
  model: Safetensors,
  codes: SafetensorsEntry,
  module: string,
  settings: Settings,
): DerivedTensor {
  const { zeros, scales } = partsOfCodes(model, codes, module);
  const indexes = model.entries.get(`${module}.g_idx`);
  const bits = bitsOf(zeros, scales, settings);
  const [codeRows = 0, rows = 0] = codes.shape;
  const columns = (codeRows * 32) / bits;
  if (codes.shape.length !== 2 || codes.bytes === 0 || !Number.isInteger(columns)) {
    throw partFault(
      codes,
      `has the shape [${codes.shape.slice(0, 8).join(', ')}], not one of ${bits}-bit codes`,
    );
  }
  const groups = scales.shape[0] ?? 0;
  const needs = `a weight of ${bits} bits`;
  requireShape(scales, [groups, rows], needs);
  requireShape(zeros, [groups, (rows * bits) / 32], needs);
  const grouping =
    indexes === undefined ? groupSizeOf(scales, columns, settings) : readIndexes(indexes, columns, groups);
  const words = { codes: wordMatrix(codes), zeros: wordMatrix(zeros), scales };
  return integerTensor({
    name: `${module}.weight`,
    rows,
    columns,
    bits,
    groups,
    grouping,
    scales,
    symmetric: settings.symmetric && isSymmetric(words.zeros, zeros, bits, settings.zeroOffset),
    parts: [codes, zeros, scales, ...(indexes === undefined ? [] : [indexes])],
    read: (first, count) => readRows(words, bits, settings.zeroOffset, first, count),
  });
}

/** Modules with settings of their own (`dynamic`) are known by their shapes. */
function bitsOf(zeros: SafetensorsEntry, scales: SafetensorsEntry, { bits, mixed }: Settings): GptqBits {
  const own = ((zeros.shape[1] ?? 0) * 32) / (scales.shape[1] ?? 0);
  if (!mixed || !knownBits.includes(own)) return bits;
  return own as GptqBits;
}

function groupSizeOf(scales: SafetensorsEntry, columns: number, { groupSize, mixed }: Settings): number {
  const [groups = 0, rows = 0] = scales.shape;
  if (mixed) return Math.ceil(columns / groups);
  const size = groupSize === -1 ? columns : groupSize;
  requireShape(scales, [Math.ceil(columns / size), rows], `a weight in groups of ${size}`);
  return size;
}

function readIndexes(part: SafetensorsEntry, columns: number, groups: number): Int32Array {
  requireDtype(part, 'I32');
  requireShape(part, [columns], 'a weight of so many inputs');
  const bytes = readPart(part, 4, 0, columns);
  const indexes = new Int32Array(bytes.buffer, bytes.byteOffset, columns);
  const stray = indexes.find((group) => group < 0 || group >= groups);
  if (stray !== undefined) throw partFault(part, `names group ${stray} of ${groups}`);
  return indexes;
}

function readRows(
  { codes, zeros, scales }: PackedParts,
  bits: GptqBits,
  zeroOffset: 0 | 1,
  first: number,
  count: number,
): IntegerRows {
  return {
    words: codes.columns(first, count),
    scales: readScales(scales, first, count),
    zeros: readZeros(zeros, scales.shape[0] ?? 0, bits, zeroOffset, first, count),
  };
}

function readZeros(
  matrix: WordMatrix,
  groups: number,
  bits: GptqBits,
  offset: 0 | 1,
  first: number,
  count: number,
): Int32Array {
  const firstWord = Math.floor((first * bits) / 32);
  const wordCount = Math.ceil(((first + count) * bits) / 32) - firstWord;
  const words = matrix.rows(firstWord, wordCount);
  // GPTQModel takes one of every zero by one subtraction a word, where a zero of 0 borrows of the next: so it is added. Zeros
  // of three bits reach over words, and go round for themselves.
  if (offset === 1 && bits !== 3) {
    for (let i = 0; i < words.length; i++) words[i] = (words[i] as number) + ones[bits];
  }
  const zeros = new Int32Array(groups * count);
  for (let group = 0; group < groups; group++) {
    const own = words.subarray(group * wordCount, (group + 1) * wordCount);
    for (let row = 0; row < count; row++) {
      const stored = codeAt(own, (first + row) * bits - 32 * firstWord, bits);
      zeros[row * groups + group] = bits === 3 ? (stored + offset) & 7 : stored;
    }
  }
  return zeros;
}

/** Zeros of three bits reach over words; they are not looked at. */
function isSymmetric(
  matrix: WordMatrix,
  { shape: [, width = 0] }: SafetensorsEntry,
  bits: GptqBits,
  offset: 0 | 1,
): boolean {
  if (bits === 3) return false;
  const expected = (ones[bits] * (2 ** (bits - 1) - offset)) | 0;
  return matrix.rows(0, width).every((word) => word === expected);
}

/** A one in every code of a word. */
const ones = { 2: 0x55555555, 4: 0x11111111, 8: 0x01010101 } as const;
