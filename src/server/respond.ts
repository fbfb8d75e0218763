// Sends an answer: as one JSON body, or as server-sent events while it comes.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { Generation, GenerationEvent } from '../generation/generation.ts';
import { WholeAnswer } from '../generation/whole-answer.ts';
import type { FinishReason } from '../sampling/stop-condition.ts';
import type { AnswerShape } from './answer-shape.ts';
import { toApiError } from './errors.ts';
import { SseStream } from './sse.ts';

/** A refusal by the engine comes within this time, and then as a proper HTTP error. */
const REFUSAL_MS = 200;

export interface Answer {
  readonly generation: Generation;
  readonly shape: AnswerShape;
  /** Of each choice, what is shown before the answer. */
  readonly echoes: readonly string[];
}

export async function respondWhole(
  reply: FastifyReply,
  { generation, shape, echoes }: Answer,
): Promise<FinishReason[]> {
  const whole = new WholeAnswer(echoes.length);
  for await (const event of generation.events()) whole.add(event);
  const choices = whole.choices.map((choice, at) => ({ ...choice, text: `${echoes[at]}${choice.text}` }));
  reply.send(shape.whole(choices, generation.usage));
  return whole.reasons;
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
  { generation, shape, echoes }: Answer,
  { includeUsage, keepAliveMs, signal, onFailure }: StreamOptions,
): Promise<FinishReason[]> {
  const events = generation.events();
  const first = events.next();
  await Promise.race([first, sleep(REFUSAL_MS, undefined, { ref: false })]);
  reply.hijack();
  const stream = new SseStream(reply.raw, reply.getHeaders(), keepAliveMs, signal);
  const reasons: FinishReason[] = [];
  try {
    for (const [index, echo] of echoes.entries()) {
      const opening = shape.opening(index);
      if (opening !== undefined) await stream.send(opening);
      if (echo !== '') await stream.send(shape.piece(index, { text: echo, details: [] }));
    }
    for (let step = await first; !step.done; step = await events.next()) {
      if (step.value.kind === 'finish') reasons.push(step.value.reason);
      const chunk = chunkOf(shape, step.value);
      if (chunk !== undefined) await stream.send(chunk);
    }
    if (includeUsage) await stream.send(shape.usage(generation.usage));
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

/** Nothing where a token gave no text yet. */
function chunkOf(shape: AnswerShape, event: GenerationEvent): object | undefined {
  if (event.kind === 'finish') return shape.finish(event.index, event.reason);
  return event.text === '' && event.details.length === 0 ? undefined : shape.piece(event.index, event);
}
