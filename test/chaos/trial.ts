// What all parts of one run share.

import type { Account } from './accounts.ts';
import type { Admin } from './admin.ts';
import type { CounterWatch } from './counters.ts';
import type { Server } from './server.ts';
import type { Tally } from './tally.ts';
import type { Timeline } from './timeline.ts';
import type { Violations } from './violations.ts';

export interface Trial {
  readonly server: Server;
  readonly admin: Admin;
  readonly accounts: readonly Account[];
  /** The right answers, by the names of the requests. */
  readonly references: Map<string, unknown>;
  readonly counters: CounterWatch;
  readonly violations: Violations;
  readonly timeline: Timeline;
  readonly tally: Tally;
  readonly say: (line: string) => void;
}

/** Those that no limit refuses. */
export function freeAccounts({ accounts }: Trial): Account[] {
  return accounts.filter(({ limited }) => !limited);
}
