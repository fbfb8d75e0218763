// What an image's way through a vision tower may end with, besides its features. Any other error is of this image alone, and may
// not come again.

/** Its rows are more than a device like this one can hold at once, however much memory is free. */
export class ImageTooLargeError extends Error {
  override readonly name = 'ImageTooLargeError';
}

/** The backend itself has failed, such as a GPU that was lost: nothing can be computed any more, for anybody. */
export class BackendFailedError extends Error {
  override readonly name = 'BackendFailedError';
}
