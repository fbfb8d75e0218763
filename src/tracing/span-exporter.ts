// Sends spans to an OpenTelemetry collector, as OTLP over HTTP, some at a time. One that is slow or away slows nobody: what does not
// fit its queue is dropped, and counted.

import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../runtime/error-message.ts';
import { otlpBody, type SpanSource } from './otlp.ts';
import type { Span } from './span.ts';
import type { SpanSink } from './tracer.ts';

const MOST_WAITING = 4096;
/** Few enough that writing them as JSON holds up nobody. */
const MOST_AT_ONCE = 128;
const EXPORT_EVERY_MS = 1000;
const TIMEOUT_MS = 10_000;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
/** The last spans of a server that ends. */
const CLOSE_MS = 2000;
/** A collector says little. */
const MOST_ANSWER = 65_536;
/** After these OTLP has a sender try again. */
const RETRIED = [429, 502, 503, 504];

export interface SpanExporterOptions extends SpanSource {
  /** That of the traces, such as http://127.0.0.1:4318/v1/traces. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Called once, until it has worked again. */
  readonly onProblem: (message: string) => void;
}

export class SpanExporter implements SpanSink {
  readonly counts = { exported: 0, dropped: 0 };
  readonly #options: SpanExporterOptions;
  readonly #waiting: Span[] = [];
  readonly #timer: NodeJS.Timeout;
  readonly #ending = new AbortController();
  #sending: Promise<void> | undefined;
  #hasProblem = false;
  #isClosing = false;

  constructor(options: SpanExporterOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#start(), EXPORT_EVERY_MS).unref();
  }

  add(span: Span): void {
    if (this.#waiting.length >= MOST_WAITING) {
      this.counts.dropped += 1;
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length === MOST_AT_ONCE) this.#start();
  }

  /** What cannot be sent within a moment is dropped. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#isClosing = true;
    this.#start();
    await Promise.race([this.#sending, sleep(CLOSE_MS, undefined, { ref: false })]);
    this.#ending.abort();
    await this.#sending;
    this.counts.dropped += this.#waiting.splice(0).length;
  }

  #start(): void {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  async #sendAll(): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    while (this.#waiting.length > 0 && !this.#ending.signal.aborted) {
      const spans = this.#waiting.splice(0, MOST_AT_ONCE);
      const outcome = await this.#send(spans);
      if (outcome === 'again' && this.#waiting.length + spans.length <= MOST_WAITING)
        this.#waiting.unshift(...spans);
      else if (outcome !== 'done') this.counts.dropped += spans.length;
      if (outcome !== 'again') continue;
      if (this.#isClosing) return;
      await sleep(pauseMs, undefined, { ref: false, signal: this.#ending.signal }).catch(() => {});
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
  }

  async #send(spans: readonly Span[]): Promise<'done' | 'again' | 'refused'> {
    try {
      const { status, text } = await this.#post(JSON.stringify(otlpBody(this.#options, spans)));
      if (status >= 200 && status < 300) {
        this.#count(spans.length, rejectedOf(text));
        return 'done';
      }
      this.#report(`answers ${status}`);
      return RETRIED.includes(status) ? 'again' : 'refused';
    } catch (error) {
      this.#report(messageOf(error));
      return 'again';
    }
  }

  /** Not by `fetch`, which makes a stream of its body first. */
  #post(body: string): Promise<{ readonly status: number; readonly text: string }> {
    const { url, headers } = this.#options;
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(TIMEOUT_MS)]);
    return new Promise((resolve, reject) => {
      const send = url.startsWith('https:') ? httpsRequest : httpRequest;
      const length = Buffer.byteLength(body);
      const sent = send(url, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', 'content-length': length },
        signal,
      });
      sent.on('error', reject);
      sent.on('response', (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (part: string) => {
          if (text.length < MOST_ANSWER) text += part;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
        response.on('error', reject);
      });
      sent.end(body);
    });
  }

  #count(sent: number, rejected: number): void {
    this.counts.exported += sent - rejected;
    this.counts.dropped += rejected;
    this.#hasProblem = false;
  }

  #report(problem: string): void {
    if (this.#hasProblem || this.#ending.signal.aborted) return;
    this.#hasProblem = true;
    const { origin } = new URL(this.#options.url);
    this.#options.onProblem(`traces cannot be sent to ${origin}: ${problem}`);
  }
}

/** A collector may take some of them alone. */
function rejectedOf(answer: string): number {
  try {
    const { partialSuccess } = JSON.parse(answer) as { partialSuccess?: { rejectedSpans?: unknown } };
    const rejected = Number(partialSuccess?.rejectedSpans ?? 0);
    return Number.isFinite(rejected) ? rejected : 0;
  } catch {
    return 0;
  }
}
