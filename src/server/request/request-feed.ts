// Finished requests as they finish, for whoever looks on: the log and the admin's event stream.

import type { TokenUsage } from '../../generation/token-usage.ts';
import type { Tier } from '../../store/key-record.ts';

export interface FinishedRequest extends TokenUsage {
  readonly kind: 'completion' | 'embedding';
  readonly requestId: string;
  readonly model: string;
  readonly keyId: string;
  /** The client's, as far as trusted proxies tell it. */
  readonly address: string;
  readonly tier: Tier;
  readonly stream: boolean;
  /** `ok`, or the code of what went wrong; `client_left` where nobody waited for the answer. */
  readonly outcome: string;
  readonly finishReasons: readonly string[];
  readonly firstTokenMs: number | undefined;
  readonly totalMs: number;
}

type FeedListener = (request: FinishedRequest) => void;

export class RequestFeed {
  readonly #listeners = new Set<FeedListener>();

  /** Returns what ends it. */
  listen(listener: FeedListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(request: FinishedRequest): void {
    for (const listener of this.#listeners) listener(request);
  }
}
