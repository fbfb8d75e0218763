// Floats of four bits as compressed-tensors packs them, two in a byte, the first in the lower half:
//
//   MXFP4   X.weight_scale uint8 [outputs, inputs / 32]     powers of two: the type MXFP4
//   NVFP4   X.weight_scale F8_E4M3 [outputs, inputs / 16]   divided by X.weight_global_scale float [1]
//
// No type holds a scale of eight bits over one of the whole tensor, so weights of NVFP4 become BF16, rounded as compressed-tensors
// rounds them when it decompresses.

import {
  type DerivedTensor,
  partFault,
  readFloatPart,
  readPart,
  requireDtype,
  requireFloats,
  requirePart,
  requireShape,
} from './derived-weights.ts';
import { fourBitTensor } from './mxfp4.ts';
import { encodeFloats, f8Values } from './quants/floats.ts';
import { fp4Steps } from './quants/nibble-tables.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';

const NVFP4_GROUP = 16;

export function packedFloats(model: Safetensors, module: string, pairs: SafetensorsEntry): DerivedTensor {
  const name = `${module}.weight`;
  const scales = requirePart(model, `${module}.weight_scale`, pairs);
  const [rows = 0, bytesPerRow = 0] = pairs.shape;
  const shape = [rows, 2 * bytesPerRow];
  if (pairs.shape.length !== 2 || pairs.bytes === 0 || bytesPerRow % 16 !== 0) {
    throw partFault(
      pairs,
      `has the shape [${pairs.shape.slice(0, 8).join(', ')}], not one of rows of blocks of 32 values`,
    );
  }
  if (scales.dtype === 'U8') {
    requireShape(scales, [rows, bytesPerRow / 16], 'a weight in MXFP4');
    return fourBitTensor('MXFP4', { name, pairs, scales }, shape);
  }
  requireDtype(scales, 'F8_E4M3');
  requireShape(scales, [rows, (2 * bytesPerRow) / NVFP4_GROUP], 'a weight in NVFP4');
  const whole = requirePart(model, `${module}.weight_global_scale`, pairs);
  requireFloats(whole);
  requireShape(whole, [1], 'a weight in NVFP4');
  return {
    name,
    type: 'BF16',
    shape,
    parts: [pairs, scales, whole],
    fill: (first, count, into) => fillRows(pairs, scales, whole, first, count, into),
  };
}

function fillRows(
  pairs: SafetensorsEntry,
  scales: SafetensorsEntry,
  whole: SafetensorsEntry,
  first: number,
  count: number,
  into: Uint8Array,
): void {
  const bytesPerRow = pairs.shape[1] ?? 0;
  const codes = readPart(pairs, bytesPerRow, first, count);
  const scaleCodes = readPart(scales, (2 * bytesPerRow) / NVFP4_GROUP, first, count);
  const meanings = encodeFloats('BF16', codeMeanings(readFloatPart(whole, 0, 1)[0] as number));
  if (meanings === undefined) throw partFault(whole, 'makes weights that are too large, or no numbers');
  const values = new Uint16Array(2 * codes.length);
  for (let byte = 0; byte < codes.length; byte++) {
    const scale = scaleCodes[byte >> 3] as number;
    if ((scale & 127) === 127) throw partFault(scales, 'holds a scale that is no number');
    const pair = codes[byte] as number;
    values[2 * byte] = meanings[16 * scale + (pair & 15)] as number;
    values[2 * byte + 1] = meanings[16 * scale + (pair >> 4)] as number;
  }
  into.set(new Uint8Array(values.buffer));
}

/** Products of every code and scale, each operation in float32. */
function codeMeanings(whole: number): Float32Array {
  return Float32Array.from({ length: 256 * 16 }, (_, at) => {
    const scale = f8Values[at >> 4] as number;
    return Number.isNaN(scale) ? 0 : Math.fround(scale / whole) * ((fp4Steps[at & 15] as number) / 2);
  });
}
