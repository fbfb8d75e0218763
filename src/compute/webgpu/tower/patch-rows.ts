// Square patches of a view, as rows of the values that its bytes stand for.

import type { ImageView, PatchStep } from '../../../model/vision/vision-spec.ts';

export const patchSize = ({ frames, size }: PatchStep): number => 3 * frames * size * size;

interface PatchGrid {
  readonly columns: number;
  /** What each byte is, 256 values a channel. */
  readonly values: Float32Array;
}

export function patchRows(
  step: PatchStep,
  { columns, values }: PatchGrid,
  { width, rgb }: ImageView,
  first: number,
  count: number,
): Float32Array<ArrayBuffer> {
  const { size, frames, order } = step;
  const area = size * size;
  const rowSize = patchSize(step);
  const rows = new Float32Array(count * rowSize);
  // Of one channel, frame and pixel to the next.
  const [byChannel, byFrame, byPixel] =
    order === 'channels-first' ? [frames * area, area, 1] : [1, 3 * area, 3];
  for (let row = 0; row < count; row++) {
    const cell = first + row;
    const corner = Math.floor(cell / columns) * size * width + (cell % columns) * size;
    for (let pixel = 0; pixel < area; pixel++) {
      const at = 3 * (corner + Math.floor(pixel / size) * width + (pixel % size));
      for (let channel = 0; channel < 3; channel++) {
        const value = values[256 * channel + (rgb[at + channel] as number)] as number;
        const into = row * rowSize + channel * byChannel + pixel * byPixel;
        for (let frame = 0; frame < frames; frame++) rows[into + frame * byFrame] = value;
      }
    }
  }
  return rows;
}
