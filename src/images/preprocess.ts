// From a picture to the numbers a tower reads: resized, cut and normalised as the model's own settings say.

import type { PreprocessingSpec } from '../model/vision/preprocessing.ts';
import type { ImageView } from '../model/vision/vision-spec.ts';
import type { Picture } from './picture.ts';
import { resize } from './resample.ts';
import { type Padding, planViews, type ViewPlace, type ViewPlan } from './view-plan.ts';

/** The views of `plan`, in its order. */
export function preprocess(
  picture: Picture,
  spec: PreprocessingSpec,
  plan: ViewPlan = planViews(spec.views, picture),
): readonly ImageView[] {
  const made: Picture[] = [];
  for (const { from, size, padded } of plan.canvases) {
    const source = from === undefined ? picture : (made[from] as Picture);
    const resized = resize(source, size, spec.filter, spec.precision);
    made.push(padded === undefined ? resized : laidOn(resized, padded));
  }
  return plan.views.map((view) => normalized(made[view.canvas] as Picture, view, spec));
}

function laidOn(
  { width, height, rgb }: Picture,
  { left, top, colour = [0, 0, 0], width: wide, height: high }: Padding,
): Picture {
  const laid = new Uint8Array(wide * high * 3);
  for (const [channel, value] of colour.entries()) {
    if (value === 0) continue;
    for (let at = channel; at < laid.length; at += 3) laid[at] = value;
  }
  for (let row = 0; row < height; row++) {
    const from = row * width * 3;
    laid.set(rgb.subarray(from, from + width * 3), ((row + top) * wide + left) * 3);
  }
  return { width: wide, height: high, rgb: laid };
}

/** Of each byte there are 256 values a channel. Channels follow each other, as towers read them. */
function normalized(picture: Picture, place: ViewPlace, spec: PreprocessingSpec): ImageView {
  const { left, top, width, height } = place;
  const values = new Float32Array(3 * width * height);
  for (let channel = 0; channel < 3; channel++) {
    const table = valueTable(spec, channel);
    for (let row = 0; row < height; row++) {
      const from = ((row + top) * picture.width + left) * 3 + channel;
      const to = (channel * height + row) * width;
      for (let column = 0; column < width; column++) {
        values[to + column] = table[picture.rgb[from + column * 3] as number] as number;
      }
    }
  }
  return { width, height, values };
}

function valueTable({ mean, deviation, bfloat16 }: PreprocessingSpec, channel: number): Float32Array {
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
