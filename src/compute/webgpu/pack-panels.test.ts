import { describe, expect, it } from 'vitest';
import { randomBlocks, seededRandom } from '../../../test/support/random-blocks.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { halfToNumber, toHalf } from '../../weights/quants/floats.ts';
import { rowBytes, type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';
import {
  type CodedFormat,
  codeWords,
  floatWords,
  formats,
  matrixBytes,
  PANEL_COLUMNS,
  scaleWords,
} from './format.ts';
import { type Panels, packPanels } from './pack-panels.ts';

const INPUTS = 512;
const ROWS = 41;

/** Reads a weight back out of its panel, as format.ts describes it. */
function weightAt(type: TensorType, { codes, scales }: Panels, row: number, input: number): number {
  const format = formats[type];
  const [panel, lane] = [Math.floor(row / PANEL_COLUMNS), row % PANEL_COLUMNS];
  if (format.kind === 'float') {
    const at = (panel * (INPUTS / 2) + Math.floor(input / 2)) * floatWords(format) + lane;
    if (format.encoding === 'f32') return asFloat(codes[at + 32 * (input % 2)] as number);
    const half = ((codes[at] as number) >>> (16 * (input % 2))) & 0xffff;
    return format.encoding === 'f16' ? halfToNumber(half) : asFloat(half * 65536);
  }
  const group = panel * (INPUTS / 32) + Math.floor(input / 32);
  const value = codeAt(format, codes, group, lane, input % 32);
  const number = (index: number) => scaleAt(format, scales, group, lane, index);
  const half = format.halves ? Math.floor((input % 32) / 16) : 0;
  const minimum = format.hasMinimum ? number((format.halves ? 2 : 1) + half) : 0;
  return number(half) * (format.isLowered ? value + 128 : value) + minimum;
}

function codeAt(format: CodedFormat, codes: Uint32Array, group: number, lane: number, input: number): number {
  const words = codes.subarray(group * codeWords(format), (group + 1) * codeWords(format));
  if (format.encoding === 'byte') {
    const word = words[8 * lane + (input >> 2)] as number;
    return (word << (24 - 8 * (input & 3))) >> 24;
  }
  const word = words[4 * lane + ((input & 15) >> 2)] as number;
  const code = (word >>> (8 * (input & 3) + (input < 16 ? 0 : 4))) & 15;
  if (format.encoding === 'codebook') return format.codebook?.steps[code] as number;
  return format.encoding === 'signed' ? (code << 28) >> 28 : code;
}

function scaleAt(
  format: CodedFormat,
  scales: Uint32Array,
  group: number,
  lane: number,
  index: number,
): number {
  const words = scales.subarray(Math.floor(group / format.groupsPerScale) * scaleWords(format));
  if (format.scale === 'f32') return asFloat(words[32 * index + lane] as number);
  if (format.scale === 'power')
    return 2 ** ((((words[lane >> 2] as number) >>> (8 * (lane & 3))) & 255) - 127);
  const alone = !format.halves && !format.hasMinimum;
  const word = words[alone ? lane >> 1 : 32 * (index >> 1) + lane] as number;
  const bits = (word >>> (16 * ((alone ? lane : index) & 1))) & 0xffff;
  return format.scale === 'bf16' ? asFloat(bits * 65536) : halfToNumber(bits);
}

function asFloat(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0] as number;
}

describe('panels', () => {
  it.each(Object.keys(tensorLayouts) as TensorType[])('hold the weights of %s rows', (type) => {
    const bytes = randomBlocks(type, (ROWS * INPUTS) / tensorLayouts[type].blockSize, seededRandom(7));
    const panels = packPanels(type, INPUTS, bytes, ROWS);
    expect(4 * (panels.codes.length + panels.scales.length)).toBe(matrixBytes(type, ROWS, INPUTS));
    const expected = new Float32Array(INPUTS);
    for (let row = 0; row < ROWS; row++) {
      const size = rowBytes(type, INPUTS);
      dequantize(type, bytes.subarray(row * size, (row + 1) * size), expected);
      const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const errors = expected.map((value, input) => Math.abs(weightAt(type, panels, row, input) - value));
      // Scales of the k-quants are rounded to halves; those of MLX are the file's.
      const most = type.startsWith('MLX') ? 2 ** -22 : 2 ** -10;
      expect(errors.every((error) => error <= most * largest)).toBe(true);
    }
  });

  it('refuse a scale that is not finite', () => {
    const block = new Uint8Array(18);
    block[1] = 0x7c;
    expect(() => packPanels('Q4_0', 32, block, 1)).toThrow('not finite');
    for (const power of [228, 255]) {
      expect(() => packPanels('MXFP4', 32, new Uint8Array(17).fill(power), 1)).toThrow('not finite');
    }
    // Infinite, and 2^101.
    for (const bits of [0x7f80, 0x7200, 0xf200]) {
      const group = new Uint8Array(rowBytes('MLX4_G64_BF16', 64));
      new DataView(group.buffer).setUint16(0, bits, true);
      expect(() => packPanels('MLX4_G64_BF16', 64, group, 1)).toThrow('not finite, or too large');
    }
  });
});

describe('halves', () => {
  it('are the nearest ones, ties to even, and exact where they can be', () => {
    const wrong = Array.from({ length: 0x7c00 }, (_, bits) => bits).filter((bits) => {
      const value = halfToNumber(bits);
      const middle = (value + halfToNumber(bits + 1)) / 2;
      const rounds = bits + 1 === 0x7c00 || (toHalf(middle) & 1) === 0;
      return toHalf(value) !== bits || toHalf(-value) !== (bits | 0x8000) || !rounds;
    });
    expect(wrong).toEqual([]);
  });

  it('refuse what is too large', () => {
    expect(toHalf(65504)).toBe(0x7bff);
    expect(() => toHalf(70000)).toThrow('too large');
  });
});
