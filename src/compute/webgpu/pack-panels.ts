// Turns rows of a weight file into panels (see format.ts), a few at a time.

import { groupReaders, type QuantType } from '../../weights/quants/dequantize.ts';
import { f8Values, toHalf } from '../../weights/quants/floats.ts';
import { emptyGroup, GROUP_SIZE, type Group } from '../../weights/quants/group.ts';
import { rowBytes, type TensorType, tensorLayouts } from '../../weights/tensor-type.ts';
import {
  type CodedFormat,
  codeWords,
  type FloatFormat,
  floatWords,
  formats,
  PANEL_COLUMNS,
  panelWords,
  scaleNumbers,
  scaleWords,
} from './format.ts';

const NOT_FINITE = 'a scale or minimum is not finite, or too large';
const HALF_NAN = 0x7e00;
const SCALES_KEPT = 1024;
/** As on the processor, where kernels need room above: powers of two up to this one, and floats below 2^101. */
const LARGEST_POWER = 2 ** 99;
const BRAIN_LIMIT = 2 ** 101;

type F8Type = 'F8_G32' | 'F8_G128';

export interface Panels {
  readonly codes: Uint32Array<ArrayBuffer>;
  readonly scales: Uint32Array<ArrayBuffer>;
}

/** Packs `count` rows from the front of `rows`; columns past them are zeros. Throws where a scale is not finite. */
export function packPanels(type: TensorType, inputs: number, rows: Uint8Array, count: number): Panels {
  const format = formats[type];
  const words = panelWords(format, inputs);
  const panels = Math.ceil(count / PANEL_COLUMNS);
  const to = {
    codes: new Uint32Array(panels * words.codes),
    scales: new Uint32Array(panels * words.scales),
  };
  const bytesPerRow = rowBytes(type, inputs);
  const halvesOf = halvesByScale();
  for (let row = 0; row < count; row++) {
    const panel = Math.floor(row / PANEL_COLUMNS);
    const bytes = rows.subarray(row * bytesPerRow, (row + 1) * bytesPerRow);
    const place = { codes: panel * words.codes, scales: panel * words.scales, lane: row % PANEL_COLUMNS };
    if (format.kind === 'float') {
      const floats = type === 'F8_G32' || type === 'F8_G128' ? f8ToHalves(type, bytes, halvesOf) : bytes;
      packFloats(format, inputs, floats, to, place);
    } else if (type === 'Q4_0' || type === 'Q8_0') copyBlocks(format, inputs, bytes, to, place);
    else packCodes(type as QuantType, format, inputs, bytes, to, place);
  }
  return to;
}

interface Place {
  /** Where the panel starts. */
  readonly codes: number;
  readonly scales: number;
  readonly lane: number;
}

function packFloats(
  format: FloatFormat,
  inputs: number,
  bytes: Uint8Array,
  { codes }: Panels,
  place: Place,
): void {
  const stride = floatWords(format);
  const size = format.encoding === 'f32' ? 4 : 2;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const bits = (input: number): number => {
    if (input >= inputs) return 0;
    return size === 4 ? view.getUint32(4 * input, true) : view.getUint16(2 * input, true);
  };
  for (let input = 0; input < inputs; input += 2) {
    const at = place.codes + (input / 2) * stride + place.lane;
    if (size === 2) {
      codes[at] = bits(input) | (bits(input + 1) << 16);
    } else {
      codes[at] = bits(input);
      codes[at + PANEL_COLUMNS] = bits(input + 1);
    }
  }
}

/** Gives the halves that all floats of eight bits become with a scale. Few scales come often: blocks of rows share them. */
function halvesByScale(): (scale: number) => Uint16Array {
  const kept = new Map<number, Uint16Array>();
  return (scale) => {
    const known = kept.get(scale);
    if (known !== undefined) return known;
    if (!Number.isFinite(scale)) throw new Error(NOT_FINITE);
    if (kept.size >= SCALES_KEPT) kept.clear();
    const halves = Uint16Array.from(f8Values, (value) =>
      Number.isNaN(value) ? HALF_NAN : toHalf(scale * value),
    );
    kept.set(scale, halves);
    return halves;
  };
}

function f8ToHalves(type: F8Type, bytes: Uint8Array, halvesOf: (scale: number) => Uint16Array): Uint8Array {
  const { blockSize, blockBytes } = tensorLayouts[type];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const row = new Uint16Array((bytes.length / blockBytes) * blockSize);
  for (let at = 0, to = 0; at < bytes.length; at += blockBytes) {
    const halves = halvesOf(view.getFloat32(at, true));
    for (let i = 4; i < blockBytes; i++) row[to++] = halves[bytes[at + i] as number] as number;
  }
  return new Uint8Array(row.buffer);
}

/** Blocks of a scale and codes that lie as panels have them: the two most common types are copied as they are. */
function copyBlocks(
  format: CodedFormat,
  inputs: number,
  bytes: Uint8Array,
  { codes, scales }: Panels,
  place: Place,
): void {
  const wordsPerGroup = codeWords(format) / PANEL_COLUMNS;
  // Blocks are a whole number of halves; a row that does not start with one is moved.
  const aligned = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  const halves = new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2);
  const shift = 16 * (place.lane & 1);
  // Nibbles of the file are 8 more than what they stand for.
  const flip = format.encoding === 'signed' ? 0x88888888 : 0;
  let at = 0;
  let to = place.codes + wordsPerGroup * place.lane;
  let scaleAt = place.scales + (place.lane >> 1);
  for (let group = 0; group < inputs / GROUP_SIZE; group++) {
    const scale = halves[at++] as number;
    if ((scale & 0x7c00) === 0x7c00) throw new Error(NOT_FINITE);
    scales[scaleAt] = (scales[scaleAt] as number) | (scale << shift);
    for (let word = 0; word < wordsPerGroup; word++, at += 2) {
      codes[to + word] = ((halves[at] as number) | ((halves[at + 1] as number) << 16)) ^ flip;
    }
    to += wordsPerGroup * PANEL_COLUMNS;
    scaleAt += PANEL_COLUMNS / 2;
  }
}

function packCodes(
  type: QuantType,
  format: CodedFormat,
  inputs: number,
  bytes: Uint8Array,
  to: Panels,
  place: Place,
): void {
  const { blockSize, blockBytes } = tensorLayouts[type];
  const read = groupReaders[type];
  const group = emptyGroup();
  const storeCodes = format.encoding === 'byte' ? storeBytes : storeNibbles;
  const groupsPerBlock = blockSize / GROUP_SIZE;
  const groups = inputs / GROUP_SIZE;
  const [codeStride, scaleStride] = [codeWords(format), scaleWords(format)];
  for (let index = 0; index < groups; index++) {
    const block = Math.floor(index / groupsPerBlock);
    read(bytes, block * blockBytes, index - block * groupsPerBlock, group);
    if (format.isLowered) lower(group);
    storeCodes(format, group.values, to.codes, place.codes + index * codeStride, place.lane);
    if (index % format.groupsPerScale !== 0) continue;
    const scaleAt = place.scales + (index / format.groupsPerScale) * scaleStride;
    storeScales(format, group, to.scales, scaleAt, place.lane);
  }
}

/** Bytes from 0 to 255 become -128 to 127. */
function lower({ values }: Group): void {
  for (let i = 0; i < GROUP_SIZE; i++) values[i] = (values[i] as number) - 128;
}

function storeNibbles(
  { codebook }: CodedFormat,
  values: Int16Array,
  words: Uint32Array,
  at: number,
  lane: number,
): void {
  if (codebook !== undefined) {
    const { places } = codebook;
    for (let i = 0; i < GROUP_SIZE; i++) values[i] = places[(values[i] as number) + 128] as number;
  }
  // Written out, because millions of groups go through here.
  const code = (index: number) => (values[index] as number) & 15;
  for (let i = 0; i < 16; i += 4) {
    const low = code(i) | (code(i + 1) << 8) | (code(i + 2) << 16) | (code(i + 3) << 24);
    const high = code(i + 16) | (code(i + 17) << 8) | (code(i + 18) << 16) | (code(i + 19) << 24);
    words[at + 4 * lane + (i >> 2)] = low | (high << 4);
  }
}

function storeBytes(
  _format: CodedFormat,
  values: Int16Array,
  words: Uint32Array,
  at: number,
  lane: number,
): void {
  const code = (index: number) => (values[index] as number) & 255;
  for (let i = 0; i < GROUP_SIZE; i += 4) {
    words[at + 8 * lane + (i >> 2)] =
      code(i) | (code(i + 1) << 8) | (code(i + 2) << 16) | (code(i + 3) << 24);
  }
}

const floatBits = new Float32Array(1);
const floatWord = new Uint32Array(floatBits.buffer);

function storeScales(
  format: CodedFormat,
  { scales, minimums }: Group,
  words: Uint32Array,
  at: number,
  lane: number,
): void {
  const perKind = format.halves ? 2 : 1;
  const numbers = scaleNumbers(format);
  for (let number = 0; number < numbers; number++) {
    const value = (number < perKind ? scales[number] : minimums[number - perKind]) as number;
    if (!Number.isFinite(value)) throw new Error(NOT_FINITE);
    if (format.scale === 'power') {
      storePower(value, words, at, lane);
      continue;
    }
    if (format.scale === 'f32') {
      floatBits[0] = value;
      words[at + number * PANEL_COLUMNS + lane] = floatWord[0] as number;
      continue;
    }
    if (format.scale === 'bf16' && Math.abs(value) >= BRAIN_LIMIT) throw new Error(NOT_FINITE);
    // Alone, two lanes share a word; otherwise two numbers of a lane do.
    const word = numbers === 1 ? lane >> 1 : (number >> 1) * PANEL_COLUMNS + lane;
    const shift = 16 * ((numbers === 1 ? lane : number) & 1);
    words[at + word] = (words[at + word] as number) | (bitsOf[format.scale](value) << shift);
  }
}

/** Of floats of 16 bits. A BF16 is the upper half of a float32. */
const bitsOf = {
  f16: toHalf,
  bf16: (value: number): number => {
    floatBits[0] = value;
    return (floatWord[0] as number) >>> 16;
  },
} as const;

/** Powers of two below the smallest float32 that is not subnormal become zero, as GPUs may make them anyway. */
function storePower(value: number, words: Uint32Array, at: number, lane: number): void {
  if (value > LARGEST_POWER) throw new Error(NOT_FINITE);
  const exponent = Math.max(0, Math.log2(value) + 127);
  words[at + (lane >> 2)] = (words[at + (lane >> 2)] as number) | (exponent << (8 * (lane & 3)));
}
