// An upstream: another server, whose models are asked for here by name.

import { checkAddress, lookupFor } from './address.ts';
import { Connections } from './connections.ts';
import { Turns } from './turns.ts';
import type { UpstreamProtocol } from './upstream-request.ts';

export interface UpstreamSettings {
  readonly name: string;
  /** The base of its routes, such as https://api.example/v1. */
  readonly url: string;
  /** Asked for each request, so that a key may change while the server runs. Undefined where the upstream needs none. */
  readonly key: () => Promise<string | undefined>;
  readonly protocol: UpstreamProtocol;
  /** How long it may be silent, before its answer and within it. */
  readonly timeoutMs: number;
  /** Whether HTTP without TLS is allowed to another machine. */
  readonly allowHttp: boolean;
  /** Parameters that it takes beyond those of its protocol. */
  readonly parameters: readonly string[];
  /** The field that limits an answer's length. */
  readonly lengthField: 'max_tokens' | 'max_completion_tokens';
  /** Requests that it is sent at once; more wait, by tier. Undefined: no limit. */
  readonly maxRequests: number | undefined;
}

export class Upstream {
  readonly settings: UpstreamSettings;
  readonly url: URL;
  readonly connections: Connections;
  readonly turns: Turns;

  /** Throws where the address is none that may be called. */
  constructor(settings: UpstreamSettings) {
    const checked = checkAddress(settings.url, settings);
    if (!checked.ok) throw new Error(checked.problem);
    this.settings = settings;
    this.url = checked.url;
    this.connections = new Connections(this.url, lookupFor(this.url, settings));
    this.turns = new Turns(settings.maxRequests);
  }

  get name(): string {
    return this.settings.name;
  }

  close(): void {
    this.connections.close();
  }
}

export interface UpstreamModel {
  /** What clients of this server call it. */
  readonly name: string;
  /** What the upstream calls it. */
  readonly remoteName: string;
  /** How long its answers may be where a request does not say; undefined leaves that to the upstream. */
  readonly maxTokens: number | undefined;
  readonly upstream: Upstream;
}
