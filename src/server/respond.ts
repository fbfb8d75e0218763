// Sends what a run gives: as one JSON body, or as server-sent events while it comes.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { AnswerShape, WholeChoice } from './answer-shape.ts';
import type { TokenDetail } from './choice-text.ts';
import type { AnswerReason, CompletionRun, RunEvent } from './completion-run.ts';
import { toApiError } from './errors.ts';
import { SseStream } from './sse.ts';

/** A refusal by the engine comes within this time, and then as a proper HTTP error. */
const REFUSAL_MS = 200;

export interface Answer {
  readonly run: CompletionRun;
  readonly shape: AnswerShape;
  /** Of each choice, what is shown before the answer. */
  readonly echoes: readonly string[];
}

export async function respondWhole(
  reply: FastifyReply,
  { run, shape, echoes }: Answer,
): Promise<AnswerReason[]> {
  const choices = echoes.map((text, index) => ({
    index,
    text,
    details: [] as TokenDetail[],
    reason: 'stop' as AnswerReason,
  }));
  for await (const event of run.events()) {
    const choice = choices[event.index];
    if (choice === undefined) continue;
    if (event.kind === 'finish') {
      choice.reason = event.reason;
      continue;
    }
    choice.text += event.text;
    choice.details.push(...event.details);
  }
  reply.send(shape.whole(choices satisfies WholeChoice[], run.usage));
  return choices.map(({ reason }) => reason);
}

export interface StreamOptions {
  readonly includeUsage: boolean;
  readonly keepAliveMs: number;
  readonly signal: AbortSignal;
  /** Told of a failure that the client heard of inside the stream. */
  readonly onFailure: (error: unknown) => void;
}

export async function respondStream(
  reply: FastifyReply,
  { run, shape, echoes }: Answer,
  { includeUsage, keepAliveMs, signal, onFailure }: StreamOptions,
): Promise<AnswerReason[]> {
  const events = run.events();
  const first = events.next();
  await Promise.race([first, sleep(REFUSAL_MS, undefined, { ref: false })]);
  reply.hijack();
  const stream = new SseStream(reply.raw, reply.getHeaders(), keepAliveMs, signal);
  const reasons: AnswerReason[] = [];
  try {
    for (const [index, echo] of echoes.entries()) {
      const opening = shape.opening(index);
      if (opening !== undefined) await stream.send(opening);
      if (echo !== '') await stream.send(shape.piece(index, { text: echo, details: [] }));
    }
    for (let step = await first; !step.done; step = await events.next()) {
      if (step.value.kind === 'finish') reasons.push(step.value.reason);
      await stream.send(chunkOf(shape, step.value));
    }
    if (includeUsage) await stream.send(shape.usage(run.usage));
    await stream.done();
  } catch (error) {
    onFailure(error);
    // The status is sent already: what went wrong can only be told in the stream, which then ends.
    stream.fail(toApiError(error).body());
  } finally {
    await events.return();
  }
  return reasons;
}

function chunkOf(shape: AnswerShape, event: RunEvent): object {
  return event.kind === 'text' ? shape.piece(event.index, event) : shape.finish(event.index, event.reason);
}
