// From a picture to the views a tower reads: resized and cut as the model's own settings say.

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
  return plan.views.map((view) => cutOut(made[view.canvas] as Picture, view));
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

function cutOut({ width: wide, height: high, rgb }: Picture, place: ViewPlace): ImageView {
  const { left, top, width, height } = place;
  if (width === wide && height === high) return { width, height, rgb };
  const cut = new Uint8Array(3 * width * height);
  for (let row = 0; row < height; row++) {
    const from = ((row + top) * wide + left) * 3;
    cut.set(rgb.subarray(from, from + 3 * width), 3 * width * row);
  }
  return { width, height, rgb: cut };
}
