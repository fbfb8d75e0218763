// Clients of a simulated fleet. A client asks any gateway for a stream, and comes back to it at another one where the connection
// breaks or is silent, as the documentation tells clients to. It knows the one right answer.

import type { Chance } from '../chaos/chance.ts';
import { answerAlone } from '../property/hash-backend.ts';
import type { SimulatedGateway } from './gateway.ts';
import type { VirtualTime } from './virtual-time.ts';
import { MODEL } from './worker.ts';

/** A client that hears nothing for so long, not even a comment, goes elsewhere. */
const SILENCE_MS = 40_000;
/** A stream that has begun goes on within this time where a worker is well. */
const GAP_MS = 12_000;
const WATCH_MS = 2000;
const PAUSE_MS = [200, 2000] as const;

export interface Asked {
  readonly id: string;
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  /** Leaves after so many tokens and never comes back. */
  readonly leavesAfter: number | undefined;
  /** Loses its connection after so many tokens, once, and comes back. */
  readonly dropsAfter: number | undefined;
}

/** What was received of one answer, by its id: what is charged must fit. */
export interface ReceivedAnswer {
  readonly of: string;
  /** Who served it. */
  readonly gateways: readonly string[];
  readonly answerId: string;
  readonly tokens: number;
  /** Of one that failed: computed, and not sent, since their text is not whole. */
  readonly withheld: number;
  readonly mostTokens: number;
  readonly promptTokens: number;
  readonly isWhole: boolean;
  readonly endedMs: number;
}

interface World {
  readonly time: VirtualTime;
  readonly chance: Chance;
  gateways(): readonly SimulatedGateway[];
  /** Whether this gateway and all workers but one were well. */
  isServing(gateway: string, fromMs: number, toMs: number): boolean;
  violation(message: string): void;
}

interface Chunk {
  readonly id?: string;
  readonly choices?: readonly {
    readonly token_ids?: readonly number[] | null;
    readonly finish_reason?: string | null;
  }[];
  readonly error?: { readonly code?: string; readonly message?: string };
}

export class SimulatedClient {
  isDone = false;
  /** What it asked, and what became of it, for people. */
  readonly log: string[] = [];
  readonly received: ReceivedAnswer[] = [];
  readonly asked: Asked;
  readonly #world: World;
  readonly #right: ReturnType<typeof answerAlone>;
  #hasDropped = false;
  #round = 0;
  #tokens: number[] = [];
  #answerId: string | undefined;
  #lastEvent: string | undefined;
  #close: (() => void) | undefined;
  #heardMs = 0;
  #askedMs = 0;
  /** When this connection gave its last token. */
  #tokenMs: number | undefined;
  readonly #gateways: string[] = [];

  get id(): string {
    return this.asked.id;
  }

  constructor(asked: Asked, world: World) {
    this.asked = asked;
    this.#world = world;
    this.#right = answerAlone(asked.prompt, 0, asked.maxTokens, true);
  }

  begin(): void {
    const { time, chance } = this.#world;
    if (this.isDone) return;
    const ready = this.#world.gateways().filter(({ isServing }) => isServing);
    if (ready.length === 0) {
      time.after(1000, undefined, () => this.begin());
      return;
    }
    const gateway = chance.pick(ready);
    this.#gateways.push(gateway.name);
    this.#note(`asks ${gateway.name}${this.#lastEvent === undefined ? '' : ` from ${this.#lastEvent} on`}`);
    this.#heardMs = time.nowMs;
    this.#askedMs = time.nowMs;
    this.#tokenMs = undefined;
    let status = 0;
    let rest = '';
    let retryMs: number | undefined;
    const { prompt, maxTokens } = this.asked;
    const again = this.#again();
    this.#close = gateway.ask(
      {
        method: 'POST',
        url: '/v1/completions',
        headers: {
          'content-type': 'application/json',
          'x-request-id': `${this.asked.id}.${this.#round}`,
          ...(this.#lastEvent === undefined ? {} : { 'last-event-id': this.#lastEvent }),
        },
        payload: {
          model: MODEL,
          prompt,
          max_tokens: maxTokens,
          temperature: 0,
          ignore_eos: true,
          stream: true,
          return_token_ids: true,
        },
      },
      {
        onHead: (given, headers) => {
          status = given;
          if (status === 200) gateway.hasAnswered = true;
          this.#heardMs = time.nowMs;
          if (time.nowMs - this.#askedMs > GAP_MS)
            this.#blame(`got a status after more than ${GAP_MS / 1000} s`);
          const seconds = Number(headers['retry-after']);
          if (seconds > 0) retryMs = 1000 * seconds;
        },
        onData: (text) => {
          this.#heardMs = time.nowMs;
          rest += text;
          if (status !== 200) return;
          const events = rest.split('\n\n');
          rest = events.pop() ?? '';
          for (const event of events) this.#event(event);
        },
        onEnd: (isBroken) => {
          if (this.isDone) return;
          if (!isBroken && status !== 200) this.#refused(gateway, status, rest);
          else this.#note(isBroken ? 'the connection broke' : 'the stream ended early');
          again(retryMs);
        },
      },
    );
    this.#guard(this.#close);
    this.#watch(this.#close);
  }

  /** One that waits for too long is noticed while it does. */
  #watch(close: () => void): void {
    this.#world.time.after(WATCH_MS, undefined, () => {
      if (!this.isDone && this.#close === close && !this.#checkGap()) this.#watch(close);
    });
  }

  /** Whoever is silent for long is left. */
  #guard(close: () => void): void {
    const { time } = this.#world;
    time.after(SILENCE_MS, undefined, () => {
      if (this.isDone || this.#close !== close) return;
      if (time.nowMs - this.#heardMs < SILENCE_MS - 1) return this.#guard(close);
      this.#note('hears nothing');
      this.#checkGap();
      close();
      this.#close = undefined;
      this.begin();
    });
  }

  /** Once for each connection. */
  #again(): (afterMs: number | undefined) => void {
    const { time, chance } = this.#world;
    let isCalled = false;
    return (afterMs) => {
      if (isCalled) return;
      isCalled = true;
      const own = this.#close;
      const pauseMs = Math.min(afterMs ?? 0, 10_000) + chance.between(...PAUSE_MS);
      time.after(pauseMs, undefined, () => {
        if (!this.isDone && this.#close === own) this.begin();
      });
    };
  }

  #refused({ hasAnswered }: SimulatedGateway, status: number, body: string): void {
    const { violation } = this.#world;
    this.#note(`${status} ${body.slice(0, 120)}`);
    // Its right end, where nothing of it can be told.
    if (status === 500 && this.#right.failed && this.#tokens.length === 0 && body.includes('numeric_error')) {
      this.#settleAs(true);
      return;
    }
    if (status >= 500) this.#blame(`is refused with ${status} ${body.slice(0, 200)}`);
    // Nothing is known of the stream any more: it is asked for from the beginning.
    if (status === 404 && body.includes('unknown_request')) this.#startAnew();
    else if (status === 503 && hasAnswered && body.includes('"no_models"'))
      violation(`${this.asked.id} is told of no models by a gateway that knows one: ${body.slice(0, 120)}`);
    // A gateway that was started while no worker was there cannot know of it.
    else if (status === 404 && body.includes('model_not_found') && !hasAnswered) return;
    else if (status !== 503 && status !== 429 && status !== 500) {
      violation(`${this.asked.id} got ${status} ${body}`);
      this.isDone = true;
    }
  }

  #startAnew(): void {
    this.#settle(false);
    this.#round++;
    this.#tokens = [];
    this.#answerId = undefined;
    this.#lastEvent = undefined;
  }

  #event(event: string): void {
    if (this.isDone) return;
    const id = /^id: (.*)$/m.exec(event)?.[1];
    const data = /^data: (.*)$/m.exec(event)?.[1];
    if (data === undefined) return;
    if (data === '[DONE]') {
      this.#end();
      return;
    }
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error !== undefined) {
      this.#note(`an error in the stream: ${chunk.error.code} ${chunk.error.message}`);
      // Its right end: the last tokens may be withheld, since their text is not whole.
      if (this.#right.failed && chunk.error.code === 'numeric_error') {
        this.#settleAs(true);
        return;
      }
      this.#blame(`is told ${chunk.error.code}: ${chunk.error.message}`);
      // One that cannot be resumed is asked for again.
      if (this.#lastEvent === undefined) this.#startAnew();
      return;
    }
    if (id !== undefined) this.#lastEvent = id;
    if (chunk.id !== undefined && chunk.id !== this.#answerId) {
      if (this.#answerId !== undefined) this.#world.violation(`${this.asked.id} got parts of two answers`);
      this.#answerId = chunk.id;
    }
    for (const { token_ids } of chunk.choices ?? []) for (const token of token_ids ?? []) this.#take(token);
    if (this.asked.leavesAfter !== undefined && this.#tokens.length >= this.asked.leavesAfter) this.#leave();
    else if (this.asked.dropsAfter !== undefined && this.#tokens.length >= this.asked.dropsAfter)
      this.#drop();
  }

  /** What its gateway has done since it was asked has no excuse where it and a worker were well. */
  #blame(what: string): void {
    const gateway = this.#gateways.at(-1) ?? '';
    if (!this.#world.isServing(gateway, this.#askedMs, this.#world.time.nowMs)) return;
    this.#world.violation(`${this.asked.id} ${what} at ${gateway} though a worker was well`);
  }

  /** Whether it is one too many. */
  #checkGap(): boolean {
    const { nowMs } = this.#world.time;
    const sinceMs = this.#tokenMs;
    if (sinceMs === undefined || nowMs - sinceMs <= GAP_MS) return false;
    const gateway = this.#gateways.at(-1) ?? '';
    if (!this.#world.isServing(gateway, sinceMs, nowMs)) return false;
    const seconds = Math.round((nowMs - sinceMs) / 1000);
    this.#world.violation(`${this.asked.id} waited ${seconds} s at ${gateway} though a worker was well`);
    return true;
  }

  #take(token: number): void {
    this.#checkGap();
    this.#tokenMs = this.#world.time.nowMs;
    const at = this.#tokens.length;
    const right = this.#right.tokens[at];
    if (token !== right)
      this.#world.violation(
        `${this.asked.id} got ${token} as token ${at} from ${this.#gateways.at(-1)}, right is ${right}`,
      );
    this.#tokens.push(token);
  }

  #drop(): void {
    if (this.#hasDropped || this.#lastEvent === undefined) return;
    this.#hasDropped = true;
    this.#note(`loses its connection after ${this.#tokens.length} tokens`);
    this.#close?.();
    const { time, chance } = this.#world;
    time.after(chance.between(...PAUSE_MS), undefined, () => this.begin());
  }

  #leave(): void {
    this.#note(`leaves after ${this.#tokens.length} tokens`);
    this.#settle(false);
    this.isDone = true;
    this.#close?.();
  }

  #end(): void {
    const { tokens } = this.#right;
    if (this.#tokens.length !== tokens.length)
      this.#world.violation(
        `${this.asked.id} got ${this.#tokens.length} of ${tokens.length} tokens and an end`,
      );
    this.#settleAs(true);
  }

  #settleAs(isWhole: boolean): void {
    this.#settle(isWhole);
    this.#note('has all');
    this.isDone = true;
    this.#close?.();
  }

  #settle(isWhole: boolean): void {
    if (this.#answerId === undefined) return;
    this.received.push({
      answerId: this.#answerId,
      of: this.asked.id,
      gateways: [...this.#gateways],
      tokens: this.#tokens.length,
      withheld: this.#right.tokens.length - this.#tokens.length,
      mostTokens: this.#right.tokens.length,
      promptTokens: this.asked.prompt.length,
      isWhole,
      endedMs: this.#world.time.nowMs,
    });
  }

  #note(what: string): void {
    this.log.push(`${(this.#world.time.nowMs / 1000).toFixed(2)} ${this.asked.id} ${what}`);
  }
}
