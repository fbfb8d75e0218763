// Everything that may be asked of a run against a server.

import type { GoodputLimits } from './goodput.ts';
import type { KeyShare } from './key-share.ts';
import type { LengthDistribution } from './length-distribution.ts';
import type { Endpoint } from './target.ts';

export interface ServeSettings {
  /** As `baseUrlOf` gives it. */
  readonly baseUrl: string;
  /** The first one of the server where undefined. */
  readonly model: string | undefined;
  readonly endpoint: Endpoint;
  /** At least one. */
  readonly keys: readonly KeyShare[];
  readonly requests: number;
  readonly warmup: number;
  readonly requestsPerSecond: number | undefined;
  /** At once, at most; undefined for no limit. */
  readonly concurrency: number | undefined;
  readonly promptTokens: LengthDistribution;
  readonly outputTokens: LengthDistribution;
  readonly prefixes: number;
  readonly prefixTokens: number;
  readonly temperature: number;
  readonly seed: number;
  readonly ignoreEos: boolean;
  readonly timeoutMs: number;
  readonly goodput: GoodputLimits | undefined;
}
