// A decoded picture.

export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Three bytes a pixel, row by row. */
  readonly rgb: Uint8Array;
}

/** A file that is no picture, or not one that is taken; the message says why. */
export class PictureError extends Error {
  override readonly name = 'PictureError';
}
