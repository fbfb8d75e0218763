// How each tensor type lies in GPU memory: panels of 32 output columns, one column a lane, so that neighbouring lanes
// read neighbouring words and no lane needs another's.
//
//   codes    per panel and group of 32 inputs, lane by lane:
//              nibble, signed, codebook   one vec4<u32>: inputs 0 … 15 in the low, 16 … 31 in the high halves of its
//                                 bytes, as 0 … 15, as -8 … 7, or as places in the codebook
//              byte               two vec4<u32>: inputs in order
//   scales   per panel and group, or per run of groups that share them, the scale, or one for each half, then the minimum,
//            likewise, as
//              f16, one number    half a word a lane
//              f16, bf16, two or four   one or two words a lane, all lanes' first word first
//              f32                a word a lane and number, all lanes' first number first
//              power, one number  a quarter of a word a lane: the exponent of a float32
//   floats   per panel and pair of inputs a word a lane (halves, or float32 as two planes)

import { iq1Codebook, iq2Codebook, iq3sCodebook, iq3xxsCodebook } from '../../weights/quants/iq-quants.ts';
import { fp4Steps, iq4Steps } from '../../weights/quants/nibble-tables.ts';
import { eachMlxType, type MlxLayout, type TensorType } from '../../weights/tensor-type.ts';

export const PANEL_COLUMNS = 32;
export const GROUP_INPUTS = 32;

interface Codebook {
  /** What its sixteen places stand for; the scale makes weights of it. */
  readonly steps: Int8Array<ArrayBuffer>;
  /** The place of each step, by its value + 128. */
  readonly places: Uint8Array;
}

export interface CodedFormat {
  readonly kind: 'coded';
  readonly encoding: 'nibble' | 'signed' | 'byte' | 'codebook';
  readonly codebook?: Codebook;
  /** Whether each half of a group has a scale of its own. */
  readonly halves: boolean;
  readonly hasMinimum: boolean;
  readonly scale: 'f16' | 'bf16' | 'f32' | 'power';
  /** Groups of 32 inputs, one after the other, that have one scale. */
  readonly groupsPerScale: number;
  /** Whether bytes stand for 0 … 255: they are kept 128 lower, and kernels raise the minimum by as many steps. */
  readonly isLowered: boolean;
}

export interface FloatFormat {
  readonly kind: 'float';
  readonly encoding: 'f32' | 'f16' | 'bf16';
}

export type Format = CodedFormat | FloatFormat;

const plain = {
  kind: 'coded',
  halves: false,
  hasMinimum: false,
  scale: 'f16',
  groupsPerScale: 1,
  isLowered: false,
} as const;
const nibble = { ...plain, encoding: 'nibble' } as const;
const signed = { ...plain, encoding: 'signed' } as const;
const byte = { ...plain, encoding: 'byte' } as const;

function codebook(steps: Int8Array<ArrayBuffer>) {
  const places = new Uint8Array(256);
  for (const [place, step] of steps.entries()) places[step + 128] = place;
  return { ...plain, encoding: 'codebook', codebook: { steps, places } } as const;
}

function mlx({ bits, groupSize, scale }: MlxLayout): CodedFormat {
  return {
    ...(bits <= 4 ? nibble : byte),
    hasMinimum: true,
    scale: ({ F16: 'f16', BF16: 'bf16', F32: 'f32' } as const)[scale],
    groupsPerScale: groupSize / GROUP_INPUTS,
    isLowered: bits === 8,
  };
}

/**
 * Scales of the k-quants are products of a half and a small number, rounded to a half here. So are weights of F8, products of
 * a scale and a float of eight bits.
 */
export const formats: Readonly<Record<TensorType, Format>> = {
  F32: { kind: 'float', encoding: 'f32' },
  F16: { kind: 'float', encoding: 'f16' },
  BF16: { kind: 'float', encoding: 'bf16' },
  F8_G32: { kind: 'float', encoding: 'f16' },
  F8_G128: { kind: 'float', encoding: 'f16' },
  Q8_0: byte,
  Q4_0: signed,
  Q4_1: { ...nibble, hasMinimum: true },
  Q5_0: byte,
  Q5_1: { ...byte, hasMinimum: true },
  Q2_K: { ...nibble, halves: true, hasMinimum: true },
  Q3_K: { ...signed, halves: true },
  Q4_K: { ...nibble, hasMinimum: true },
  Q5_K: { ...byte, hasMinimum: true },
  Q6_K: { ...byte, halves: true },
  IQ1_S: codebook(iq1Codebook),
  IQ1_M: { ...codebook(iq1Codebook), halves: true },
  IQ2_XXS: codebook(iq2Codebook),
  IQ2_XS: { ...codebook(iq2Codebook), halves: true },
  IQ2_S: { ...codebook(iq2Codebook), halves: true },
  IQ3_XXS: codebook(iq3xxsCodebook),
  IQ3_S: codebook(iq3sCodebook),
  IQ4_NL: codebook(iq4Steps),
  IQ4_XS: codebook(iq4Steps),
  TQ1_0: signed,
  TQ2_0: signed,
  MXFP4: { ...codebook(fp4Steps), scale: 'power' },
  NVFP4: { ...codebook(fp4Steps), halves: true },
  ...eachMlxType(mlx),
};

/** Numbers that go with a group of one column. */
export function scaleNumbers({ halves, hasMinimum }: CodedFormat): number {
  return (halves ? 2 : 1) * (hasMinimum ? 2 : 1);
}

/** Words of scales that a panel has for each group, or for groups that share them. */
export function scaleWords(format: CodedFormat): number {
  const bytes = { f16: 2, bf16: 2, f32: 4, power: 1 }[format.scale];
  return (PANEL_COLUMNS * bytes * scaleNumbers(format)) / 4;
}

/** Words of codes that a panel has for each group. */
export function codeWords({ encoding }: CodedFormat): number {
  return PANEL_COLUMNS * (encoding === 'byte' ? 8 : 4);
}

/** Words of values that a panel has for each pair of inputs. */
export function floatWords({ encoding }: FloatFormat): number {
  return PANEL_COLUMNS * (encoding === 'f32' ? 2 : 1);
}

export interface PanelWords {
  readonly codes: number;
  readonly scales: number;
}

/** Words of one panel. Floats have no scales; their values count as codes. */
export function panelWords(format: Format, inputs: number): PanelWords {
  if (format.kind === 'float') return { codes: Math.ceil(inputs / 2) * floatWords(format), scales: 0 };
  const groups = inputs / GROUP_INPUTS;
  return { codes: groups * codeWords(format), scales: (groups / format.groupsPerScale) * scaleWords(format) };
}

/** Bytes of a whole matrix in GPU memory. */
export function matrixBytes(type: TensorType, outputs: number, inputs: number): number {
  const { codes, scales } = panelWords(formats[type], inputs);
  return Math.ceil(outputs / PANEL_COLUMNS) * 4 * (codes + scales);
}
