// Resumes streams: a client names its request and the last event it has, at this server or at another one with the same
// archive, and receives the rest. The seed is archived with the request, so that the answer is the same.

import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import type { Prompt } from '../../generation/context-room.ts';
import type { ModelEntry } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { Seed } from '../../sampling/random.ts';
import type { AnswerTokens } from '../archive/answer-log.ts';
import type { AnswerBasis, AnswerSettings, CountedTokens, KeptRequest, ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { callerOf } from '../request/auth.ts';
import type { RequestContext } from '../request/request-scope.ts';
import type { BackgroundRequest } from './background-request.ts';

const MOST_CHOICES = 4096;

/**
 * How far a stream has come: the events of each choice, and the closing events that belong to none. Events of several choices
 * mix by chance, so that one number would not do. Written as the id of an event.
 */
export class StreamPosition {
  readonly #counts: number[];
  #closing: number;

  constructor(counts: readonly number[] = [], closing = 0) {
    this.#counts = [...counts];
    this.#closing = closing;
  }

  static parse(text: string): StreamPosition | undefined {
    const match = /^(\d{1,9}(?:\.\d{1,9})*)(?:-(\d{1,9}))?$/.exec(text.trim());
    const counts = match?.[1]?.split('.').map(Number) ?? [];
    if (match === null || counts.length > MOST_CHOICES) return undefined;
    return new StreamPosition(counts, Number(match[2] ?? 0));
  }

  copy(): StreamPosition {
    return new StreamPosition(this.#counts, this.#closing);
  }

  advance(index: number | undefined): void {
    if (index === undefined) this.#closing += 1;
    else this.#counts[index] = this.#countOf(index) + 1;
  }

  covers(other: StreamPosition, index: number | undefined): boolean {
    return index === undefined
      ? this.#closing >= other.#closing
      : this.#countOf(index) >= other.#countOf(index);
  }

  toString(): string {
    const counts = Array.from(this.#counts, (count) => count ?? 0);
    const closing = this.#closing === 0 ? '' : `-${this.#closing}`;
    return `${counts.length === 0 ? '0' : counts.join('.')}${closing}`;
  }

  #countOf(index: number): number {
    return this.#counts[index] ?? 0;
  }
}

export interface Resumption {
  readonly kept: KeptRequest;
  readonly after: StreamPosition;
  /** 1 the first time. */
  readonly takeover: number;
}

/** The request that the client resumes; undefined where it sends no Last-Event-ID. */
export async function resumptionOf(
  { archive }: ServerContext,
  request: FastifyRequest,
): Promise<Resumption | undefined> {
  const given = request.headers['last-event-id'];
  if (archive === undefined || given === undefined) return undefined;
  const after = StreamPosition.parse(String(given));
  if (after === undefined) throw badRequest('Last-Event-ID', `'${given}' is no id of an event`);
  const { keyId } = callerOf(request);
  const kept = await archive.find(keyId, request.id);
  const route = request.routeOptions.url ?? '';
  if (kept === undefined || kept.route !== route) {
    const message = `no request ${request.id} to ${route} is known: it was never begun, or too long ago`;
    throw new ApiError(404, message, { code: 'unknown_request' });
  }
  if (request.body !== undefined && request.body !== null && JSON.stringify(request.body) !== kept.body) {
    const message = `request ${request.id} had another body; send the same, or none`;
    throw new ApiError(409, message, { code: 'different_body' });
  }
  return { kept, after, takeover: (kept.takeovers ?? 0) + 1 };
}

/**
 * Whether the client may resume the request. A request that cannot be archived is answered all the same. `end` is absent the
 * first time, before anything is used.
 */
export async function archiveRequest(
  { context, request, caller, entry, resumable, resumption, background }: ArchivedRequest,
  { id: answerId, arrivedMs }: { readonly id: string; readonly arrivedMs: number },
  { seed, ...basis }: AnswerStart,
  end?: AnswerEnd,
): Promise<boolean> {
  if (context.archive === undefined || !resumable) return false;
  // The request itself goes first: a connection that carries both would hold it up.
  await setImmediate();
  try {
    const isKept = await context.archive.keep({
      id: request.id,
      keyId: caller.keyId,
      route: request.routeOptions.url ?? '',
      body: resumption?.kept.body ?? JSON.stringify(request.body),
      answerId,
      seed,
      arrivedMs,
      takeovers: resumption?.takeover,
      chargedWithAnswer: background?.chargedWithAnswer,
      counted: end?.usage ?? resumption?.kept.counted,
      model: entry.name,
      settings: answerSettings(context.settings),
      basis,
      ended: end && (end.isWhole ? 'whole' : 'cut'),
      tokens: resumption?.kept.tokens,
    });
    // What was kept the first time still is.
    return isKept || resumption !== undefined;
  } catch (error) {
    request.log.warn({ err: error }, 'a request cannot be kept: its client cannot come back to it');
    return resumption !== undefined;
  }
}

/** What a resumed answer must follow from, too. */
export function basisOf(
  { context, resumption }: Pick<ArchivedRequest, 'context' | 'resumption'>,
  model: ServedModel,
  prompts: readonly Prompt[],
  choices: number,
): AnswerBasis {
  return {
    prompts: digestOf(prompts),
    promptTokens: prompts.map(({ ids }) => ids.length),
    choices,
    origin: context.originOf?.(model),
    fingerprint: resumption?.kept.basis?.fingerprint ?? fingerprint(context, model),
  };
}

/** Throws where the rest of the answer would not be the rest of what its client has. */
export function checkBasis(resumption: Resumption | undefined, now: AnswerBasis): void {
  const before = resumption?.kept.basis;
  if (before === undefined) return;
  const changed =
    before.origin !== now.origin
      ? 'the model, or what computes it, is another one now'
      : before.prompts !== now.prompts
        ? 'its prompt reads otherwise now: a chat template, a setting or an image behind an address has changed'
        : undefined;
  if (changed === undefined) return;
  const message = `the answer cannot be gone on with, because ${changed}; send the request again, without Last-Event-ID`;
  throw new ApiError(409, message, { code: 'answer_changed', headers: { 'x-should-retry': 'false' } });
}

/** The last token is sampled again: so the engine says how the answer ends. Nobody has kept log-probabilities. */
export function knownTokens(
  resumption: Resumption | undefined,
  { logprobs }: Pick<SamplingParameters, 'logprobs'>,
): AnswerTokens | undefined {
  if (logprobs !== undefined) return undefined;
  return resumption?.kept.tokens?.map((tokens) => tokens.slice(0, -1));
}

function digestOf(prompts: readonly Prompt[]): string {
  const hash = createHash('sha256');
  for (const { ids, images } of prompts) {
    hash.update(`${ids.length} `).update(ids);
    for (const { key } of images?.images ?? []) hash.update(`${key} `);
  }
  return hash.digest('base64url');
}

/** Changes with whatever may change an answer: this program and the model's file. The same at every gateway of a fleet. */
export function fingerprint(
  { version, pool }: Pick<ServerContext, 'version' | 'pool'>,
  { name, path, content }: Pick<ServedModel, 'name' | 'path' | 'content'>,
): string {
  const entry = pool.list().find((one) => one.name === name);
  const file = content === undefined ? [path, entry?.createdSeconds] : [content];
  const text = JSON.stringify([version, name, ...file]);
  return `fp_${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
}

/** With the settings under which the answer began: those of this server may be others, and would give another answer. */
export function resumedContext(context: ServerContext, resumption: Resumption | undefined): ServerContext {
  if (resumption === undefined) return context;
  const began = { thinking: undefined, ...resumption.kept.settings };
  return { ...context, settings: { ...context.settings, ...began } };
}

function answerSettings({ samplingDefaults, useModelSampling, thinking }: AnswerSettings): AnswerSettings {
  return { samplingDefaults, useModelSampling, thinking };
}

interface AnswerStart extends AnswerBasis {
  readonly seed: Seed;
}

interface AnswerEnd {
  readonly usage: CountedTokens;
  readonly isWhole: boolean;
}

interface ArchivedRequest extends Pick<RequestContext, 'context' | 'request' | 'caller'> {
  readonly entry: Pick<ModelEntry, 'name'>;
  readonly resumable: boolean;
  readonly background: BackgroundRequest | undefined;
  readonly resumption: Resumption | undefined;
}
