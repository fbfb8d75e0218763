// One response that no client waits for: what is known of it while it is queued and while it runs, and its end.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger, FastifyReply } from 'fastify';
import type { BackgroundResponse } from '../../store/background-store.ts';
import type { NewResponse } from '../../store/response-store.ts';
import { fromStore } from '../http/errors.ts';
import type { StreamMessage } from '../jobs/answer-shape.ts';
import type { BackgroundRequest } from '../jobs/background-request.ts';
import type { Caller } from '../request/auth.ts';
import type { ConversationItem } from './items.ts';
import type { KeptResponses } from './kept-responses.ts';
import { ResponseEvents } from './response-events.ts';
import { responseObject } from './response-object.ts';
import type { ResponsesBody } from './schema.ts';
import type { Background } from './shape.ts';

const STORE_RETRY_MS = 1000;
/** `response.created` and `response.queued`. */
const EARLY_EVENTS = 2;

type NewRow = Omit<BackgroundResponse, 'shown' | 'cancelled'> & Partial<Pick<BackgroundResponse, 'shown'>>;

interface RunOptions {
  readonly caller: Caller;
  /** Of its client. Unknown after a restart. */
  readonly address?: string;
  readonly kept: KeptResponses;
  readonly log: Pick<FastifyBaseLogger, 'error'>;
  /** How long the end of an answer is tried to be stored. */
  readonly patienceMs: number;
  /** Makes the row that outlives this process. */
  add(row: Omit<BackgroundResponse, 'cancelled'>): Promise<void>;
  remove(): Promise<void>;
}

export class BackgroundRun implements Background {
  readonly row: NewRow;
  readonly caller: Caller;
  readonly address: string | undefined;
  /** Undefined where nobody may stream them. */
  readonly streamed: ResponseEvents | undefined;
  readonly events = EARLY_EVENTS;
  /** How the request is asked for. */
  readonly request: BackgroundRequest;
  /** Resolves with the headers for its client once it is stored and queued. */
  readonly accepted: Promise<Readonly<Record<string, unknown>>>;
  readonly #options: RunOptions;
  readonly #abort = new AbortController();
  #accept: (headers: Readonly<Record<string, unknown>>) => void = () => {};
  #given: ResponsesBody | undefined;
  #input: readonly ConversationItem[] = [];
  #shown: Readonly<Record<string, unknown>> | undefined;
  #now: (() => object) | undefined;
  #isQueued = false;
  #isSaved = false;

  constructor(row: NewRow, options: RunOptions) {
    this.row = row;
    this.caller = options.caller;
    this.address = options.address;
    this.#options = options;
    this.#shown = row.shown;
    this.streamed = row.streamed ? new ResponseEvents() : undefined;
    this.accepted = new Promise((resolve) => {
      this.#accept = resolve;
    });
    this.request = { answerId: row.id, queued: (model, reply) => this.#queue(model, reply) };
  }

  get createdSeconds(): number {
    return Math.floor(this.row.createdMs / 1000);
  }

  /** Whether its client knows of it, so that it goes on whatever happens. */
  get isAccepted(): boolean {
    return this.#shown !== undefined;
  }

  get hasBegun(): boolean {
    return this.#now !== undefined;
  }

  get isSaved(): boolean {
    return this.#isSaved;
  }

  get isCancelled(): boolean {
    return this.#abort.signal.aborted;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The response as far as it has come. */
  now(): object {
    return this.#now?.() ?? this.#shown ?? {};
  }

  cancel(): void {
    this.#abort.abort();
  }

  read(given: ResponsesBody, input: readonly ConversationItem[]): void {
    this.#given = given;
    this.#input = input;
  }

  began(now: () => object): void {
    this.#now = now;
  }

  tell(messages: readonly StreamMessage[]): void {
    this.streamed?.add(messages);
  }

  /** Ends it without an answer. */
  async end(status: 'cancelled' | 'failed', error: object | null = null): Promise<void> {
    const { output: _, ...shown } = this.#shown ?? {};
    const { id } = this.row;
    const previousId = (shown.previous_response_id ?? undefined) as string | undefined;
    const body = { ...shown, status, error };
    const ended = { ...body, output: [] };
    await this.save({ id, previousId, body, input: this.#input, output: [] });
    this.#now = () => ended;
    const type = status === 'failed' ? 'response.failed' : 'response.incomplete';
    this.#tellEarly(shown);
    this.tell([{ event: type, data: { type, response: ended, sequence_number: EARLY_EVENTS } }]);
  }

  /** Tries again for a while. Where that fails, too, the next process computes the answer again. */
  async save(response: NewResponse<ConversationItem>): Promise<void> {
    const { kept, log, patienceMs, remove } = this.#options;
    const endMs = performance.now() + patienceMs;
    while (!(await kept.save(this.row.keyId, response, log))) {
      if (performance.now() >= endMs) throw new Error(`the response ${response.id} could not be stored`);
      await sleep(STORE_RETRY_MS);
    }
    this.#isSaved = true;
    // A row that stays is found to be done by the server that takes it next.
    await remove().catch((error: unknown) => log.error({ err: error }, 'responses in the background'));
  }

  async #queue(model: string, reply: FastifyReply): Promise<void> {
    if (this.#shown === undefined) {
      const { id } = this.row;
      const given = this.#given as ResponsesBody;
      const state = {
        id,
        createdSeconds: this.createdSeconds,
        model,
        status: 'queued',
        stored: true,
      } as const;
      const shown = responseObject(given, state);
      await fromStore('responses in the background', () => this.#options.add({ ...this.row, shown }));
      this.#shown = shown;
    }
    this.#tellEarly(this.#shown);
    this.#accept(reply.getHeaders());
  }

  /** The same each time, also after a restart. */
  #tellEarly(shown: object): void {
    if (this.#isQueued) return;
    this.#isQueued = true;
    const response = { ...shown, output: [] };
    const types = ['response.created', 'response.queued'];
    this.tell(types.map((type, at) => ({ event: type, data: { type, response, sequence_number: at } })));
  }
}
