// What all parts of one run share.

import type { Account } from './accounts.ts';
import type { Admin } from './admin.ts';
import type { TokenUsage } from './answer.ts';
import type { Books } from './books.ts';
import type { CounterWatch } from './counters.ts';
import type { HoldUps } from './hold-ups.ts';
import type { Outages } from './outages.ts';
import type { Server } from './server.ts';
import type { Tally } from './tally.ts';
import type { Timeline } from './timeline.ts';
import type { Violations } from './violations.ts';

export interface Reference {
  readonly answer: unknown;
  readonly usage: TokenUsage | undefined;
}

export interface Trial {
  /** The one that runs, or ran last. */
  readonly server: Server;
  readonly outages: Outages;
  readonly holdUps: HoldUps;
  readonly admin: Admin;
  readonly accounts: readonly Account[];
  /** The right answers, by the names of the requests. */
  readonly references: Map<string, Reference>;
  readonly counters: CounterWatch;
  readonly books: Books;
  readonly violations: Violations;
  readonly timeline: Timeline;
  readonly tally: Tally;
  readonly say: (line: string) => void;
}

/** Those that no limit refuses. */
export function freeAccounts(trial: Trial): Account[] {
  return anyAccounts(trial).filter(({ limited }) => !limited);
}

/** Those that are there for whatever comes. */
export function anyAccounts({ accounts }: Trial): Account[] {
  return accounts.filter(({ role }) => role === 'any');
}

export function accountFor({ accounts }: Trial, wanted: Account['role']): Account {
  const found = accounts.find(({ role }) => role === wanted);
  if (found === undefined) throw new Error(`there is no account for ${wanted}`);
  return found;
}
