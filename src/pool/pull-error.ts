// A download that cannot be done or go on: the message says why and what to do.

export class PullError extends Error {
  override readonly name = 'PullError';
}
