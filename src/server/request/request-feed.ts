// Publishes requests as they finish: to the log, and to the event streams of admins.

import type { TokenUsage } from '../../generation/answer-source.ts';
import type { Tier } from '../../store/key-record.ts';
import type { UpstreamUse } from '../live/live-event.ts';

export interface FinishedRequest extends TokenUsage {
  readonly kind: 'completion' | 'embedding';
  readonly requestId: string;
  readonly model: string;
  readonly upstream?: UpstreamUse;
  readonly keyId: string;
  /** The client's address, as far as trusted proxies say. */
  readonly address: string;
  readonly tier: Tier;
  readonly stream: boolean;
  /** `ok`, or the code of what went wrong; `client_left` where the client did not wait for the answer. */
  readonly outcome: string;
  readonly finishReasons: readonly string[];
  readonly firstTokenMs: number | undefined;
  readonly totalMs: number;
}

type FeedListener = (request: FinishedRequest) => void;

export class RequestFeed {
  readonly #listeners = new Set<FeedListener>();

  subscribe(listener: FeedListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  publish(request: FinishedRequest): void {
    for (const listener of this.#listeners) listener(request);
  }
}
