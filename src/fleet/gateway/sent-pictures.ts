// How the pictures of a request reach its worker: the request names them, and their files follow in parts, as far as the worker
// asks for them.

import type { EngineRequest } from '../../engine/request.ts';
import type { AgedRequest, ToGateway, ToWorker } from '../messages.ts';

/** In one message. */
const PART_BYTES = 2 ** 18;
/** However much is asked for at once. */
const MOST_BYTES = 2 ** 20;

export type WantedPicture = Extract<ToGateway, { kind: 'picture' }>;

type Part = Extract<ToWorker, { kind: 'picture' }>;

/** Without what is the gateway's alone, and with the names of its pictures in their place. */
export function sentRequest({ enqueuedMs: _, pictures, ...request }: EngineRequest): AgedRequest {
  if (pictures === undefined) return request;
  const { images, ...rest } = pictures;
  const named = images.map(({ file, ...picture }) => ({ ...picture, bytes: file.length }));
  return { ...request, pictures: { ...rest, images: named } };
}

export function* pictureParts({ pictures }: EngineRequest, wanted: WantedPicture): Generator<Part> {
  const { id, attempt, picture, offset, bytes } = wanted;
  const file = pictures?.images[picture]?.file;
  if (file === undefined || !Number.isSafeInteger(offset) || offset < 0) return;
  const end = Math.min(file.length, offset + Math.min(bytes, MOST_BYTES));
  for (let at = offset; at < end; at += PART_BYTES) {
    const content = file.subarray(at, Math.min(end, at + PART_BYTES));
    yield { kind: 'picture', id, attempt, picture, offset: at, content };
  }
}
