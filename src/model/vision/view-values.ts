// The numbers that a view's bytes are to a tower: normalised as the model's own settings say.

import type { PreprocessingSpec } from './preprocessing.ts';
import type { ImageView } from './vision-spec.ts';

/** Channel by channel, row by row. Of each byte there are 256 values a channel. */
export function viewValues({ width, height, rgb }: ImageView, spec: PreprocessingSpec): Float32Array {
  const area = width * height;
  const values = new Float32Array(3 * area);
  for (let channel = 0; channel < 3; channel++) {
    const table = valueTable(spec, channel);
    for (let pixel = 0; pixel < area; pixel++) {
      values[channel * area + pixel] = table[rgb[3 * pixel + channel] as number] as number;
    }
  }
  return values;
}

/** What each byte of a channel is. */
export function valueTable({ mean, deviation, bfloat16 }: PreprocessingSpec, channel: number): Float32Array {
  const round = bfloat16 ? toBfloat16 : Math.fround;
  const [shift, scale] = [round(mean[channel] as number), round(deviation[channel] as number)];
  return Float32Array.from({ length: 256 }, (_, byte) =>
    round(round(round(byte * (1 / 255)) - shift) / scale),
  );
}

const bits = new DataView(new ArrayBuffer(4));

/** To the nearest, half to even. */
function toBfloat16(value: number): number {
  bits.setFloat32(0, value);
  const word = bits.getUint32(0);
  const lower = word & 0xffff;
  const isUp = lower > 0x8000 || (lower === 0x8000 && (word & 0x10000) !== 0);
  bits.setUint32(0, ((word & 0xffff0000) >>> 0) + (isUp ? 0x10000 : 0));
  return bits.getFloat32(0);
}
