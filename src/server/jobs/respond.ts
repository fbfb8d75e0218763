// Sends an answer: as one JSON body, or as server-sent events while it comes.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { AnswerSource } from '../../generation/answer-source.ts';
import type { GenerationEvent } from '../../generation/generation-event.ts';
import { WholeAnswer, type WholeChoice } from '../../generation/whole-answer.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import { pausedByShutdown, toApiError } from '../http/errors.ts';
import { type Framing, SseStream } from '../http/sse.ts';
import { type Queued, queueHeaders, reportPosition } from '../request/queue-position.ts';
import type { AnswerShape, StreamMessage } from './answer-shape.ts';
import { StreamPosition } from './resumption.ts';

/** A refusal by the engine comes within this time; it can then be sent as an HTTP error, before the headers of a stream. */
const REFUSAL_MS = 200;
/** The same of another server, which is asked over a network. */
const REMOTE_REFUSAL_MS = 10_000;

interface Answer {
  readonly generation: AnswerSource;
  readonly shape: AnswerShape;
  readonly echoes: readonly string[];
  readonly queued: Queued;
  /** Called when the usage is known, before the client receives the end of the answer. */
  readonly charge: () => Promise<void>;
}

export async function respondWhole(
  reply: FastifyReply,
  { generation, shape, echoes, queued, charge }: Answer,
  { archived, follow }: Kept,
): Promise<FinishReason[]> {
  const whole = new WholeAnswer(echoes.length);
  shape.begun?.();
  let choices: readonly WholeChoice[];
  try {
    for await (const event of generation.events()) {
      // A client that saw a part must see the rest of the same answer after a restart.
      await archived;
      whole.add(event);
      shape.observe?.(event);
      if (event.kind === 'piece' && event.token !== undefined) follow?.(event.index, event.token);
    }
    // Before the answer is stored: a process that dies between them leaves a request to go on with.
    await charge();
    choices = whole.choices.map((choice, at) => ({ ...choice, text: `${echoes[at]}${choice.text}` }));
    await shape.settled?.(choices, generation.usage);
  } catch (error) {
    await shape.brokenWhole?.(error, generation.usage);
    throw error;
  }
  queueHeaders(reply, queued);
  reply.send(shape.whole(choices, generation.usage));
  return whole.reasons;
}

interface Kept {
  readonly archived: Promise<boolean>;
  /** Called with each token of which something is known outside. */
  readonly follow?: ((choice: number, token: number) => void) | undefined;
}

interface StreamOptions extends Kept {
  readonly framing: Framing;
  readonly keepAliveMs: number;
  readonly signal: AbortSignal;
  readonly after?: StreamPosition | undefined;
  /** Called with a failure that is sent inside the stream. */
  readonly onFailure: (error: unknown) => void;
}

export async function respondStream(
  reply: FastifyReply,
  { generation, shape, echoes, queued, charge }: Answer,
  { framing, keepAliveMs, signal, archived, after, follow, onFailure }: StreamOptions,
): Promise<FinishReason[]> {
  const events = generation.events();
  const first = events.next();
  const { accepted } = generation;
  const refusalMs = accepted === undefined ? REFUSAL_MS : REMOTE_REFUSAL_MS;
  const patience = new AbortController();
  const late = sleep(refusalMs, undefined, { ref: false, signal: patience.signal }).catch(() => {});
  await Promise.race([first, late, ...(accepted === undefined ? [] : [accepted])]);
  patience.abort();
  const resumable = await archived;
  queueHeaders(reply, queued);
  reply.hijack();
  const stream = new SseStream(reply.raw, reply.getHeaders(), keepAliveMs, signal, framing);
  const whole = new WholeAnswer(echoes.length);
  const position = new StreamPosition();
  // What the client has, of all choices: those whose events are found again later were not lost meanwhile.
  const sent = after?.copy() ?? new StreamPosition();
  const sendAll = async (index: number | undefined, messages: readonly StreamMessage[]) => {
    for (const { data, event } of messages) {
      const isKnown = after !== undefined && !position.covers(after, index);
      position.advance(index);
      if (isKnown) continue;
      sent.advance(index);
      await stream.send(data, event, resumable ? sent.toString() : undefined);
    }
  };
  try {
    for (const [index, echo] of echoes.entries()) {
      await sendAll(index, shape.opening(index));
      const parts = [{ kind: 'content', text: echo } as const];
      if (echo !== '') await sendAll(index, shape.piece(index, { parts, details: [] }));
    }
    for (let step = await reportPosition(first, stream, queued); !step.done; step = await events.next()) {
      whole.add(step.value);
      const isEnd = step.value.kind === 'finish' && whole.complete;
      if (isEnd) await charge();
      await sendAll(step.value.index, messagesOf(shape, step.value));
      if (step.value.kind === 'piece' && step.value.token !== undefined) {
        follow?.(step.value.index, step.value.token);
      }
    }
    await shape.settled?.(whole.choices, generation.usage);
    await sendAll(undefined, shape.closing(generation.usage));
    await stream.done();
  } catch (error) {
    onFailure(error);
    await shape.broken?.(error, generation.usage);
    // The status is sent already: the stream itself says what went wrong, and ends.
    const failure = toApiError(error);
    const isPaused = resumable && failure.code === 'shutting_down';
    stream.fail(...shape.failure(isPaused ? pausedByShutdown(reply.request.id, sent.toString()) : failure));
  } finally {
    await events.return();
  }
  return whole.reasons;
}

function messagesOf(shape: AnswerShape, event: GenerationEvent): readonly StreamMessage[] {
  if (event.kind === 'scores') return [];
  return event.kind === 'finish' ? shape.finish(event.index, event) : shape.piece(event.index, event);
}
