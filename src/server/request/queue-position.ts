// What a client is told of the queue: where it is while it waits, in comments of its stream, and how long it waited, in a
// header.

import type { FastifyReply } from 'fastify';
import type { QueuePlace } from '../../engine/wait-estimates.ts';
import type { SseStream } from '../http/sse.ts';

/** `waitMs`: until the first token, as is expected now. */
export type QueuePosition = Omit<QueuePlace, 'id'>;

export interface Queued {
  /** Undefined where it does not wait, or that is not known. */
  readonly place: QueuePosition | undefined;
  /** Undefined where it has not begun. */
  readonly queuedMs: number | undefined;
}

/** How often a stream says where it is, at most. */
const SAY_MS = 1000;

/** Before the headers are sent. */
export function queueHeaders(reply: FastifyReply, { place, queuedMs }: Queued): void {
  if (queuedMs !== undefined) reply.header('x-queue-wait-ms', Math.round(queuedMs));
  else if (place !== undefined) reply.header('x-queue-position', place.position);
}

/** Tells the stream where it is, at once and whenever that has changed, until `first` is there. */
export async function tellPosition<First>(
  first: Promise<First>,
  stream: Pick<SseStream, 'comment'>,
  queued: Queued,
): Promise<First> {
  let said = '';
  const say = () => {
    const { place } = queued;
    if (place === undefined) return;
    const text = positionText(place);
    if (text !== said) stream.comment(text);
    said = text;
  };
  say();
  const timer = setInterval(say, SAY_MS).unref();
  try {
    return await first;
  } finally {
    clearInterval(timer);
  }
}

export function positionText({ position, waitMs }: QueuePosition): string {
  return `queue position=${position} wait=${(waitMs / 1000).toFixed(1)}s`;
}
