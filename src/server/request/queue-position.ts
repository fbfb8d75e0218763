// What a client is sent about the queue: its position while it waits, in comments of its stream, and how long it waited, in a
// header.

import type { FastifyReply } from 'fastify';
import type { EstimatedWait } from '../../engine/wait-estimates.ts';
import type { SseStream } from '../http/sse.ts';

export type QueuePosition = Omit<EstimatedWait, 'id'>;

export interface Queued {
  /** Undefined where the request does not wait, or where its position is not known. */
  readonly position: QueuePosition | undefined;
  readonly queuedMs: number | undefined;
}

const REPORT_EVERY_MS = 1000;

export function queueHeaders(reply: FastifyReply, { position, queuedMs }: Queued): void {
  if (queuedMs !== undefined) reply.header('x-queue-wait-ms', Math.round(queuedMs));
  else if (position !== undefined) reply.header('x-queue-position', position.position);
}

/** Writes the position into the stream, at once and whenever it has changed, until `first` resolves. */
export async function reportPosition<First>(
  first: Promise<First>,
  stream: Pick<SseStream, 'comment'>,
  queued: Queued,
): Promise<First> {
  let reported = '';
  const report = () => {
    const { position } = queued;
    if (position === undefined) return;
    const text = positionText(position);
    if (text !== reported) stream.comment(text);
    reported = text;
  };
  report();
  const timer = setInterval(report, REPORT_EVERY_MS).unref();
  try {
    return await first;
  } finally {
    clearInterval(timer);
  }
}

function positionText({ position, waitMs }: QueuePosition): string {
  return `queue position=${position} wait=${(waitMs / 1000).toFixed(1)}s`;
}
