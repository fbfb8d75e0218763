// The server as its administrator sees it: keys, models, numbers.

import { type Exchange, exchange, patient } from './exchange.ts';

/** Long enough for a model to load on a busy machine. */
const LIMIT_MS = 120_000;

export interface MadeKey {
  readonly id: string;
  readonly key: string;
}

export interface NewKey {
  readonly name: string;
  readonly tier: 'high' | 'normal' | 'low';
  readonly requests_per_minute?: number;
  readonly tokens_per_minute?: number;
  readonly max_concurrent?: number;
  readonly daily_tokens?: number;
  readonly kv_share?: number;
}

export interface AdminStats {
  readonly runningRequests: number;
  readonly models: readonly {
    readonly name: string;
    readonly state: string;
    readonly busy: number;
    readonly memoryBytes?: number;
  }[];
  readonly engines: readonly {
    readonly model: string;
    readonly direct: boolean;
    readonly problem?: string;
    readonly stats?: {
      readonly queues: readonly { readonly waiting: number }[];
      readonly running: readonly unknown[];
      readonly blocks: { readonly used: number };
    };
  }[];
}

export class Admin {
  readonly #url: string;
  readonly key: string;

  constructor(url: string, key: string) {
    this.#url = url;
    this.key = key;
  }

  createKey(key: NewKey): Promise<Exchange> {
    return this.#send('POST', '/admin/keys', key);
  }

  revokeKey(id: string): Promise<Exchange> {
    return this.#send('DELETE', `/admin/keys/${id}`);
  }

  load(model: string): Promise<Exchange> {
    return this.#send('POST', '/admin/models/load', { model });
  }

  unload(model: string): Promise<Exchange> {
    return this.#send('POST', '/admin/models/unload', { model });
  }

  /** The text that Prometheus reads. */
  scrape(): Promise<Exchange> {
    return this.#send('GET', '/metrics');
  }

  async stats(): Promise<AdminStats> {
    return JSON.parse((await this.#send('GET', '/admin/stats')).text) as AdminStats;
  }

  #send(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<Exchange> {
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    return exchange(this.#url, { method, path, key: this.key, ...content }, patient, LIMIT_MS);
  }
}
