// A client of a simulated fleet that gives it a batch, and asks any gateway how far it is.

import type { Chance } from '../chaos/chance.ts';
import { answerAlone, VOCABULARY } from '../property/hash-backend.ts';
import type { SimulatedGateway } from './gateway.ts';
import type { VirtualTime } from './virtual-time.ts';
import { MODEL } from './worker.ts';

const BOUNDARY = 'a-boundary-that-is-in-no-file';
const POLL_MS = 5000;
const SILENCE_MS = 20_000;
const LINE_TOKENS: readonly (readonly [weight: number, range: readonly [number, number]])[] = [
  [4, [1, 40]],
  [1, [80, 200]],
];

interface World {
  readonly time: VirtualTime;
  readonly chance: Chance;
  gateways(): readonly SimulatedGateway[];
  violation(message: string): void;
}

export interface BatchResult {
  /** Of all its lines, each answered once. */
  readonly tokens: number;
  readonly inputFile: string | undefined;
}

interface Line {
  readonly customId: string;
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
}

interface OutputLine {
  readonly custom_id: string;
  readonly response: {
    readonly status_code: number;
    readonly body: { readonly choices?: readonly { readonly token_ids: readonly number[] }[] };
  } | null;
}

export class SimulatedBatch {
  isDone = false;
  readonly id: string;
  readonly log: string[] = [];
  readonly #world: World;
  readonly #lines: readonly Line[];
  #inputFile: string | undefined;

  constructor(id: string, world: World) {
    this.id = id;
    this.#world = world;
    const { chance } = world;
    this.#lines = Array.from({ length: chance.between(3, 14) }, (_, i) => lineOf(`${id}-${i}`, chance));
  }

  get result(): BatchResult {
    const tokens = this.#lines.reduce((sum, line) => sum + line.tokens.length, 0);
    return { tokens, inputFile: this.#inputFile };
  }

  async run(): Promise<void> {
    const file = await this.#until('POST', '/v1/files', this.#form(), {
      'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
    });
    this.#inputFile = String(file.id);
    const order = { input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h' };
    const { id } = await this.#until('POST', '/v1/batches', order, { 'content-type': 'application/json' });
    for (;;) {
      await this.#pause(POLL_MS);
      const batch = await this.#until('GET', `/v1/batches/${id}`);
      if (batch.status === 'completed') return this.#check(batch);
      if (['failed', 'expired', 'cancelled'].includes(String(batch.status))) {
        this.#world.violation(`${this.id} is ${batch.status}: ${JSON.stringify(batch.errors)}`);
        this.isDone = true;
        return;
      }
    }
  }

  async #check(batch: Record<string, unknown>): Promise<void> {
    const { violation } = this.#world;
    const text = async (file: unknown) =>
      file === null ? '' : String((await this.#until('GET', `/v1/files/${file}/content`)).text);
    const lines = [await text(batch.output_file_id), await text(batch.error_file_id)]
      .join('\n')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as OutputLine);
    for (const { customId, tokens } of this.#lines) {
      const own = lines.filter(({ custom_id }) => custom_id === customId);
      if (own.length !== 1) violation(`${this.id} has ${own.length} answers to ${customId}`);
      const given = own[0]?.response?.body.choices?.[0]?.token_ids;
      if (given?.join() !== tokens.join())
        violation(`${this.id} has a wrong answer to ${customId}: ${JSON.stringify(own[0])}`.slice(0, 300));
    }
    if (lines.length !== this.#lines.length)
      violation(`${this.id} has ${lines.length} answers to ${this.#lines.length} lines`);
    const { total, completed, failed } = batch.request_counts as Record<string, number>;
    if (total !== this.#lines.length || completed !== total || failed !== 0)
      violation(`${this.id} counts ${completed} of ${total} lines, and ${failed} that failed`);
    this.isDone = true;
  }

  #form(): string {
    const content = this.#lines.map(({ customId, prompt, tokens }) =>
      JSON.stringify({
        custom_id: customId,
        method: 'POST',
        url: '/v1/completions',
        body: {
          model: MODEL,
          prompt,
          max_tokens: tokens.length,
          temperature: 0,
          ignore_eos: true,
          return_token_ids: true,
        },
      }),
    );
    return [
      `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\ncontent-type: application/octet-stream\r\n\r\n${content.join('\n')}\n\r\n`,
      `--${BOUNDARY}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n`,
      `--${BOUNDARY}--\r\n`,
    ].join('');
  }

  /** Asks until it is answered. */
  async #until(
    method: 'GET' | 'POST',
    url: string,
    payload?: object | string,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Record<string, unknown>> {
    for (;;) {
      const answer = await this.#ask({ method, url, payload, ...(headers === undefined ? {} : { headers }) });
      if (answer?.status === 200)
        return url.endsWith('/content')
          ? { text: answer.body }
          : (JSON.parse(answer.body) as Record<string, unknown>);
      this.log.push(
        `${(this.#world.time.nowMs / 1000).toFixed(1)} ${this.id} ${method} ${url}: ${answer?.status} ${answer?.body.slice(0, 100)}`,
      );
      if (answer !== undefined && answer.status < 500 && answer.status !== 429 && answer.status !== 0)
        this.#world.violation(`${this.id} got ${answer.status} ${answer.body}`);
      await this.#pause(2000);
    }
  }

  #ask(request: {
    readonly method: 'GET' | 'POST';
    readonly url: string;
    readonly payload?: object | string | undefined;
    readonly headers?: Readonly<Record<string, string>>;
  }): Promise<{ readonly status: number; readonly body: string } | undefined> {
    const { time, chance } = this.#world;
    const serving = this.#world.gateways().filter(({ isServing }) => isServing);
    if (serving.length === 0) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      let status = 0;
      let body = '';
      const close = chance.pick(serving).ask(request, {
        onHead: (given) => {
          status = given;
        },
        onData: (text) => {
          body += text;
        },
        onEnd: (isBroken) => resolve(isBroken ? undefined : { status, body }),
      });
      time.after(SILENCE_MS, undefined, () => {
        close();
        resolve(undefined);
      });
    });
  }

  #pause(durationMs: number): Promise<void> {
    return new Promise((resolve) => void this.#world.time.after(durationMs, undefined, resolve));
  }
}

/** Its answer ends well. */
function lineOf(customId: string, chance: Chance): Line {
  for (;;) {
    const prompt = Array.from({ length: chance.between(3, 30) }, () => chance.below(VOCABULARY));
    const { tokens, failed } = answerAlone(prompt, 0, chance.between(...chance.weighted(LINE_TOKENS)), true);
    if (!failed) return { customId, prompt, tokens };
  }
}
